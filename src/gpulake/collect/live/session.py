"""Goes live as the options say: nothing is served, sent, or even imported, that was not asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.errors import ConfigError

if TYPE_CHECKING:
    from gpulake.collect.live.state import State


@dataclass(frozen=True)
class LiveOptions:
    listen: str = ""  # HOST:PORT; empty: no page
    web_config: Path | None = None
    names: str = "dcgm"
    otlp: str = ""  # URL; empty: what OpenTelemetry's variables say, or nothing
    otlp_every_seconds: float = 15.0
    most_process_series: int = 1_000
    allowed_hosts: tuple[str, ...] = ()  # names by which browsers and Prometheus reach the page, beside its own

    def arguments(self) -> list[str]:
        """The same options for a command line, where a collector is started in the background."""
        defaults = LiveOptions()
        pairs = (
            ("--listen", self.listen, defaults.listen),
            ("--web-config-file", self.web_config, defaults.web_config),
            ("--names", self.names, defaults.names),
            ("--otlp", self.otlp, defaults.otlp),
            ("--otlp-every", self.otlp_every_seconds, defaults.otlp_every_seconds),
            ("--most-process-series", self.most_process_series, defaults.most_process_series),
        )
        given = [word for flag, value, default in pairs if value != default for word in (flag, str(value))]
        return given + [word for host in self.allowed_hosts for word in ("--allowed-host", host)]


@contextmanager
def live(
    options: LiveOptions,
    *,
    interval_seconds: float,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> Iterator[State | None]:
    """The state that the sampler is to tell: `observe` once a tick, `source` when a source comes or goes; None where
    nobody asked for anything."""
    if options.web_config is not None and not options.listen:
        raise ConfigError("--web-config-file was given, and nothing is served", "add --listen HOST:PORT")
    wants_push = bool(options.otlp) or any(name.startswith("OTEL_EXPORTER_OTLP_") for name in environment)
    if not options.listen and not wants_push:
        yield None
        return
    from gpulake.collect.live.state import State

    state = State(interval_seconds=interval_seconds)
    with ExitStack() as stack:
        is_served = bool(options.listen) and _serve(state, options, say, stack)
        is_pushed = wants_push and _push(state, options, say, environment, stack)
        yield state if is_served or is_pushed else None


def _serve(state: State, options: LiveOptions, say: Callable[[str], None], stack: ExitStack) -> bool:
    from gpulake.collect.live.page import serve

    server = serve(
        state,
        options.listen,
        options.web_config,
        names=options.names,
        most_processes=options.most_process_series,
        say=say,
        allowed_hosts=options.allowed_hosts,
    )
    stack.callback(server.close)
    host, port = server.address
    say(f"metrics are served at {f'[{host}]' if ':' in host else host}:{port}/metrics")
    return True


def _push(
    state: State, options: LiveOptions, say: Callable[[str], None], environment: Mapping[str, str], stack: ExitStack
) -> bool:
    from gpulake.collect.live.push import push
    from gpulake.collect.live.receiver import find_receiver

    receiver = find_receiver(options.otlp, environment)
    if receiver is None:
        return False
    pusher = push(
        state,
        receiver,
        every_seconds=options.otlp_every_seconds,
        names=options.names,
        most_processes=options.most_process_series,
        say=say,
    )
    stack.callback(pusher.close)
    say(f"metrics are pushed to {receiver.host} every {options.otlp_every_seconds:g} s")
    return True
