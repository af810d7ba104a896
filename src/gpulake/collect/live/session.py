"""Serves and pushes live metrics as the options say; what is not used is not imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.errors import ConfigError

if TYPE_CHECKING:
    from gpulake.collect.live.push import Target
    from gpulake.collect.live.state import State


@dataclass(frozen=True)
class LiveOptions:
    listen: str = ""  # HOST:PORT; empty: no page
    web_config: Path | None = None
    names: str = "dcgm"
    otlp: str = ""  # URL; empty: from OpenTelemetry's variables, or none
    otlp_every_seconds: float = 15.0
    most_process_series: int = 1_000
    allowed_hosts: tuple[str, ...] = ()  # further names by which clients reach the page
    kafka: str = ""  # HOST:PORT/TOPIC; empty: none

    def arguments(self) -> list[str]:
        """The same options for the command line of a background collector."""
        defaults = LiveOptions()
        flags = {"web_config": "--web-config-file", "otlp_every_seconds": "--otlp-every"}
        given: list[str] = []
        for name in ("listen", "web_config", "names", "otlp", "kafka", "otlp_every_seconds", "most_process_series"):
            if getattr(self, name) != getattr(defaults, name):
                given += [flags.get(name, f"--{name.replace('_', '-')}"), str(getattr(self, name))]
        return given + [word for host in self.allowed_hosts for word in ("--allowed-host", host)]


@contextmanager
def live(
    options: LiveOptions,
    *,
    interval_seconds: float,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> Iterator[State | None]:
    """The state that the sampler updates: `observe` at each tick, `source` when a source changes; None if unused."""
    if options.web_config is not None and not options.listen:
        raise ConfigError("--web-config-file was given, and nothing is served", "add --listen HOST:PORT")
    if options.otlp and options.kafka:
        raise ConfigError("--otlp and --kafka are given", "choose the one to push to")
    wants_push = bool(options.otlp or options.kafka) or any(
        name.startswith("OTEL_EXPORTER_OTLP_") for name in environment
    )
    if not options.listen and not wants_push:
        yield None
        return
    from gpulake.collect.live.state import State

    state = State(interval_seconds=interval_seconds)
    common: dict[str, Any] = {"names": options.names, "most_processes": options.most_process_series, "say": say}
    with ExitStack() as stack:
        is_used = False
        if options.listen:
            from gpulake.collect.live.page import serve

            server = serve(state, options.listen, options.web_config, allowed_hosts=options.allowed_hosts, **common)
            stack.callback(server.close)
            host, port = server.address
            say(f"metrics are served at {f'[{host}]' if ':' in host else host}:{port}/metrics")
            is_used = True
        if wants_push:
            from gpulake.collect.live.push import Pusher

            if receiver := _target(options, environment):
                stack.callback(Pusher(state, receiver, every_seconds=options.otlp_every_seconds, **common).close)
                say(f"metrics are pushed to {receiver.host} every {options.otlp_every_seconds:g} s")
                is_used = True
        yield state if is_used else None


def _target(options: LiveOptions, environment: Mapping[str, str]) -> Target | None:
    if options.kafka:
        from gpulake.collect.live.kafka import topic_of

        return topic_of(options.kafka, environment)
    from gpulake.collect.live.push import find_receiver

    return find_receiver(options.otlp, environment)
