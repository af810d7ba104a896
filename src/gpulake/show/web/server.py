"""The server of the dashboard: its address, its guard, its limits, and how it stops."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpulake.core.addresses import is_loopback
from gpulake.core.errors import UsageError
from gpulake.core.serve_settings import PROXY_VARIABLE, TOKENS_VARIABLE, Serve, tokens
from gpulake.lake import Lake

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server

    from gpulake.show.web.guard import Guard

GRACE_SECONDS = 3  # for requests in flight when it stops


def serve(
    lake: Lake,
    application: Callable[[Guard], FastAPI],
    host: str,
    port: int,
    started: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM; `started` gets the URL. Port 0 is a free one."""
    lake.open()
    try:
        import uvicorn  # noqa: F401 - a missing extra is reported before anything starts

        from gpulake.show.web.guard import EVERY_ADDRESS
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'gpulake[serve]'") from error
    family, address = _resolved(host, port)
    guard = guard_of(lake, host, address[0], os.environ if environment is None else environment)
    server = server_of(application(guard), lake.config.serve)

    def stop(*_: object) -> None:
        server.should_exit = True

    with _listening(family, address, port) as listener:
        # uvicorn stops on a signal and then raises it again for the previous handler, which must not end the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        name = "localhost" if host in EVERY_ADDRESS else f"[{host}]" if ":" in host else host
        started(f"http://{name}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def server_of(app: FastAPI, settings: Serve) -> Server:
    """The server of an application, within the limits of its settings."""
    import uvicorn

    from gpulake.show.web.connections import limited

    # The guard judges forwarded addresses. The server's name is not sent. Its warnings are about bad requests, with
    # which strangers could fill the log.
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
    # Open event streams would delay the stop.
    app.state.events.is_stopping = lambda: server.should_exit
    return server


def guard_of(lake: Lake, host: str, address: str, environment: Mapping[str, str]) -> Guard:
    """The guard of the settings. An address that others can reach requires logins."""
    from gpulake.show.web.guard import EVERY_ADDRESS, LOOPBACK, Guard

    settings, users = lake.config.serve, tokens(environment.get(TOKENS_VARIABLE, ""))
    if not users and not settings.proxy_header and not is_loopback(address):
        raise UsageError(
            f"on {host} everybody on the network could look at the lake",
            f"give {TOKENS_VARIABLE}=name:token, or proxy_header in [serve] of gpulake.toml, or --host 127.0.0.1",
        )
    is_everywhere = host in EVERY_ADDRESS
    named = {socket.gethostname().lower()} if is_everywhere else {host.lower()}
    hosts = LOOPBACK | named | {name.strip("[]").lower() for name in settings.allowed_hosts}
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
            raise UsageError(f"port {port} needs more rights than this process has", "use one above 1023") from error
        raise UsageError(
            f"cannot listen on {address[0]}: {error.strerror}", "use an address of this machine"
        ) from error
