"""Connections within the limits of [serve]: their number, and how long each may take or be idle.

uvicorn does not limit how long a request takes to arrive, nor count connections that have sent none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from gpulake.core.addresses import address_group
from gpulake.core.serve_settings import Serve

_FULL = b"too many connections\n"
_LONG = b"the head of the request is too large\n"
_LATE = b"the request took too long to arrive\n"


@dataclass
class Connections:
    """Open connections, in all and by address."""

    settings: Serve
    total: int = 0
    by_address: Counter[str] = field(default_factory=Counter)

    def enter(self, address: str) -> bool:
        settings, group = self.settings, address_group(address)
        # All clients of a proxy share its address.
        is_proxy = bool(settings.proxy_header) and settings.trusts(address)
        is_full = self.by_address[group] >= settings.most_connections_per_address and not is_proxy
        if is_full or self.total >= settings.most_connections:
            return False
        self.total += 1
        self.by_address[group] += 1
        return True

    def leave(self, address: str) -> None:
        group = address_group(address)
        self.total -= 1
        self.by_address[group] -= 1
        if not self.by_address[group]:
            del self.by_address[group]


def limited(settings: Serve) -> type[H11Protocol]:
    """The protocol class of a server, which counts its connections."""
    return type("Limited", (_Limited,), {"settings": settings, "open": Connections(settings)})


class _Timer:
    """Calls a function after some seconds, unless stopped before; starting it again has no effect."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], None]) -> None:
        self._loop, self._seconds, self._call = loop, seconds, call
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._handle = self._handle or self._loop.call_later(self._seconds, self._call)

    def end(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _Limited(H11Protocol):
    settings: Serve
    open: Connections
    _address: str | None = None  # None: it was refused
    _taken: int = 0  # bytes of the request that is arriving

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        address = (get_remote_addr(transport) or ("", 0))[0]
        if not self.open.enter(address):
            transport.write(_answer("503 Service Unavailable", _FULL, "Retry-After: 5\r\n"))
            transport.close()
            return
        self._address = address
        self._arriving = _Timer(self.loop, self.settings.request_seconds, self._late)
        self._stalled = _Timer(self.loop, self.settings.idle_seconds, transport.abort)
        super().connection_made(transport)
        self._arriving.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is None:
            return
        self.open.leave(self._address)
        self._arriving.end()
        self._stalled.end()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken > self.settings.most_header_bytes + 2 * self.settings.most_body_bytes:
            self.transport.abort()  # it was answered, and keeps sending
            return
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._taken = 0
            self._arriving.end()
        elif not self.transport.is_closing():
            self._arriving.begin()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled.end()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._drop_unread()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # a response has already begun
        elif len(self.conn.trailing_data[0]) > self.settings.most_header_bytes:
            self.transport.write(_answer("431 Request Header Fields Too Large", _LONG))
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_answer("408 Request Timeout", _LATE))
        self.transport.close()
        self._drop_unread()

    def _drop_unread(self) -> None:
        """close() waits until the client has read everything, which it may never do."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def _answer(status: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}"
    )
    return head.encode() + b"\r\n" + body
