"""Serving: the dashboard on a lake, for as long as somebody wants it."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpulake.core.addresses import is_loopback
from gpulake.core.clock import Clock, SystemClock
from gpulake.core.errors import UsageError
from gpulake.core.serve_settings import PROXY_VARIABLE, TOKENS_VARIABLE, Serve, tokens
from gpulake.flow.incidents import change
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

    from gpulake.show.web.actions import Actions
    from gpulake.show.web.guard import Guard

GRACE_SECONDS = 3  # for answers that are on their way when it stops


def application(lake: Lake, guard: Guard | None = None, clock: Clock | None = None) -> FastAPI:
    """Without a guard everybody who reaches it is let in: for who puts a check of their own before it."""
    try:
        from gpulake.show.web.app import create_app
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    place = lake.open()
    # A lake that is mounted read-only, or that is somebody else's, is looked at and no more.
    can_write = os.access(place.root, os.W_OK)
    return create_app(place, guard, actions(place, clock or SystemClock()) if can_write else None)


def actions(lake: Lake, clock: Clock) -> Actions:
    """What the dashboard's people do, as the commands do it."""
    return lambda verb, incident_id, by, values: change(lake, clock, verb, incident_id, by, **values).only


def serve(
    lake: Lake, host: str, port: int, started: Callable[[str], None], environment: Mapping[str, str] | None = None
) -> None:
    """Answers until it is told to stop; `started` is told where. Port 0 is one that is free."""
    lake.open()
    try:
        import uvicorn  # noqa: F401 - asked for before anything is begun

        from gpulake.show.web.guard import EVERY_ADDRESS
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    family, address = _resolved(host, port)
    guard = guard_of(lake, host, address[0], os.environ if environment is None else environment)
    app = application(lake, guard)
    server = server_of(app, lake.config.serve)

    def stop(*_: object) -> None:
        server.should_exit = True

    with _listening(family, address, port) as listener:
        # The server stops on a signal by itself, and then sends it to who handled it before: this must not end us.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        name = "localhost" if host in EVERY_ADDRESS else f"[{host}]" if ":" in host else host
        started(f"http://{name}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def server_of(app: FastAPI, settings: Serve) -> Server:
    """The server of an application, within the limits of its settings."""
    import uvicorn

    from gpulake.show.web.connections import limited

    # Forwarded addresses are the guard's to judge. Nobody is told which server this is. What it would warn of is what
    # anybody can send: a log that strangers fill.
    config = uvicorn.Config(
        app,
        http=limited(settings),
        ws="none",
        h11_max_incomplete_event_size=settings.most_header_bytes,
        log_level="error",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    # Who listens for news would be waited for.
    app.state.events.is_stopping = lambda: server.should_exit
    return server


def guard_of(lake: Lake, host: str, address: str, environment: Mapping[str, str]) -> Guard:
    """Who may ask. An address that others can reach needs logins."""
    from gpulake.show.web.guard import EVERY_ADDRESS, LOOPBACK, Guard

    settings, users = lake.config.serve, tokens(environment.get(TOKENS_VARIABLE, ""))
    if not users and not settings.proxy_header and not is_loopback(address):
        raise UsageError(
            f"on {host} everybody on the network could look at the lake",
            f"give {TOKENS_VARIABLE}=name:token, or proxy_header in [serve] of gpulake.toml, or --host 127.0.0.1",
        )
    is_everywhere = host in EVERY_ADDRESS
    own = {socket.gethostname().lower()} if is_everywhere else {host.lower()}
    hosts = LOOPBACK | own | {name.strip("[]").lower() for name in settings.allowed_hosts}
    return Guard(settings, users, environment.get(PROXY_VARIABLE, ""), hosts, is_everywhere)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"no address for --host {host!r}: {error}", "use 127.0.0.1, or an address of this machine"
        ) from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _listening(family: socket.AddressFamily, address: tuple[str, int], port: int) -> socket.socket:
    try:
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "use another one with --port, or --port 0 for one that is free"
            raise UsageError(f"port {port} is taken", hint) from error
        if error.errno == errno.EACCES:
            raise UsageError(f"port {port} needs more rights than we have", "use one above 1023") from error
        raise UsageError(
            f"cannot listen on {address[0]}: {error.strerror}", "use an address of this machine"
        ) from error
