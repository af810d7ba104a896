"""A dashboard on a free port, in a thread, within the limits that it is given."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.guard import Guard
from gpulake.show.web.server import server_of


@contextmanager
def serving(config: Config, guard: Guard | None = None) -> Iterator[str]:
    """Its address; it stops with the block."""
    app = application(Lake(config), guard)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)  # who comes before the server is ready waits
        server = server_of(app, guard.settings if guard else config.serve)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def all_of(connection: socket.socket) -> bytes:
    """All that comes until it is closed; who waits for that in vain is told by the connection's own timeout."""
    answer = b""
    with suppress(ConnectionError):
        while some := connection.recv(1 << 16):
            answer += some
    return answer
