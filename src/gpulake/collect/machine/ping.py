"""Round trip to a peer, without root and without waiting: sent at one tick, received at the next or a later one.

The kernel timestamps the answer, so that it does not matter when it is read. Methods in this order: ICMP datagrams,
which most systems permit; ICMP on a raw socket, for root; and if the peer has a port, a TCP connection, whose round
trip the kernel measures.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from gpulake.core.errors import UsageError

TIMESTAMP_NANOSECONDS = 35  # SO_TIMESTAMPNS and its message, as in asm-generic/socket.h; Python has no name for it
ICMP_FILTER = 1  # option of a raw socket: a mask of unwanted types
ECHO, ECHO_REPLY, ECHO_V6, ECHO_REPLY_V6 = 8, 0, 128, 129
TCP_INFO_RTT_AT = 68  # struct tcp_info: tcpi_rtt, microseconds
TCP_STATES_WITH_RTT = {1, 8}  # established; the peer has closed already
LOST_BEFORE_NEXT = 5
LONGEST_SECONDS = 60.0
MOST_UNANSWERED = 600  # a minute at the shortest interval
CONNECTING = 2  # SYN_SENT
PATIENCE_SECONDS = 5.0  # until a connection is abandoned


class Peer(NamedTuple):
    family: int
    address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
    has_port: bool


class Method(Protocol):
    def send(self) -> None: ...

    def receive(self) -> float | None:
        """The round trip in seconds, if an answer came since the last call."""
        ...

    def close(self) -> None: ...


class Ping:
    """Sends one request per call. If nothing can be measured, that is reported once."""

    def __init__(
        self, peer: str, say: Callable[[str], None], *, methods: list[Callable[[], Method]] | None = None
    ) -> None:
        self._name = peer
        self._say = say
        self._methods = _methods(peer, say) if methods is None else methods
        self._method: Method | None = None
        self._sent = 0
        self._is_answered = False
        self._next_method()

    def exchange(self) -> float | None:
        """The round trip received since the last call; sends the next request."""
        if self._method is None:
            return None
        found = self._method.receive()
        self._is_answered |= found is not None
        if self._sent >= LOST_BEFORE_NEXT and not self._is_answered and self._methods:
            self._next_method()
        self._sent += 1
        with suppress(OSError):  # no route now: the link may come back
            self._method.send()
        return found

    def close(self) -> None:
        if self._method is not None:
            self._method.close()
            self._method = None

    def _next_method(self) -> None:
        """Switches to the next permitted method; without one, the current method stays."""
        reasons = []
        while self._methods:
            try:
                method = self._methods.pop(0)()
            except OSError as error:
                reasons.append(error.strerror or str(error))
                continue
            self.close()
            self._method, self._sent = method, 0
            return
        if self._method is None and reasons:
            self._say(
                f"round trip to {self._name}: not permitted ({'; '.join(reasons)}); allow ICMP with "
                "net.ipv4.ping_group_range, or give the peer as host:port"
            )


class Icmp:
    """Echo requests, on a datagram or a raw socket that is connected to the peer."""

    def __init__(self, peer: Peer, kind: int) -> None:
        is_v6 = peer.family == socket.AF_INET6
        protocol = socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP
        self._types = (ECHO_V6, ECHO_REPLY_V6) if is_v6 else (ECHO, ECHO_REPLY)
        self._has_ip_header = kind == socket.SOCK_RAW and not is_v6
        self._id = os.getpid() & 0xFFFF
        self._sequence = 0
        self._token = os.urandom(8)  # returned in the answer: other programs may ping the same peer
        self._sent_ns: dict[int, int] = {}  # by sequence, of unanswered requests
        self._socket = socket.socket(peer.family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, TIMESTAMP_NANOSECONDS, 1)
            if self._has_ip_header:
                self._socket.setsockopt(255, ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << ECHO_REPLY)))
            self._socket.connect(peer.address)
        except OSError:
            self._socket.close()
            raise

    def send(self) -> None:
        self._sequence = (self._sequence + 1) & 0xFFFF
        head = struct.pack("!BBHHH", self._types[0], 0, 0, self._id, self._sequence)
        checksum = _checksum(head + self._token)
        if len(self._sent_ns) >= MOST_UNANSWERED:
            del self._sent_ns[next(iter(self._sent_ns))]
        self._sent_ns[self._sequence] = time.time_ns()
        self._socket.send(head[:2] + struct.pack("!H", checksum) + head[4:] + self._token)

    def receive(self) -> float | None:
        found = None
        for _ in range(1000):  # bounded against a flood
            try:
                packet, extras, _flags, _from = self._socket.recvmsg(2048, socket.CMSG_SPACE(16))
            except BlockingIOError:
                break
            except OSError:  # an ICMP error for an earlier request
                continue
            sent_ns = self._sent_ns.pop(self._answered(packet), None)
            # Kernel timestamps begin slightly late: the first answer has none.
            if sent_ns is not None and self._sequence > 1:
                found = self._seconds(extras, sent_ns)
        return found

    def close(self) -> None:
        self._socket.close()

    def _answered(self, packet: bytes) -> int:
        """The sequence number of the request that a packet answers; -1: not ours."""
        at = (packet[0] & 0x0F) * 4 if self._has_ip_header and packet else 0
        if len(packet) < at + 16:
            return -1
        kind, _, _, _, sequence = struct.unpack_from("!BBHHH", packet, at)
        is_ours = kind == self._types[1] and packet[at + 8 : at + 16] == self._token
        return int(sequence) if is_ours else -1

    def _seconds(self, extras: list[tuple[int, int, bytes]], sent_ns: int) -> float | None:
        for level, kind, content in extras:
            if level == socket.SOL_SOCKET and kind == TIMESTAMP_NANOSECONDS and len(content) >= 16:
                seconds, nanoseconds = struct.unpack_from("=qq", content)
                took = (seconds * 1_000_000_000 + nanoseconds - sent_ns) / 1e9
                return took if 0 < took < LONGEST_SECONDS else None  # otherwise the clock was set
        return None


class Connect:
    """A TCP connection per request: the kernel measures the round trip of its handshake."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._socket: socket.socket | None = None
        self._sent_at = 0.0

    def send(self) -> None:
        if self._socket is not None and time.monotonic() - self._sent_at < PATIENCE_SECONDS:
            return  # the round trip is longer than a tick
        self.close()
        self._sent_at = time.monotonic()
        self._socket = socket.socket(self._peer.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.connect_ex(self._peer.address)

    def receive(self) -> float | None:
        if self._socket is None:
            return None
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        if info[:1] == bytes([CONNECTING]):
            return None
        self.close()
        if len(info) < TCP_INFO_RTT_AT + 4 or info[0] not in TCP_STATES_WITH_RTT:
            return None
        (microseconds,) = struct.unpack_from("=I", info, TCP_INFO_RTT_AT)
        return microseconds / 1e6 if microseconds else None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def split_peer(peer: str) -> tuple[str, int | None]:
    """The host and the port of host, host:port, v6 address or [v6 address]:port."""
    host, port = peer, ""
    if peer.startswith("["):
        host, _, rest = peer[1:].partition("]")
        port = rest.removeprefix(":")
    elif peer.count(":") == 1:
        host, _, port = peer.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise UsageError(f"the peer is {peer!r}", "give an address, a name, or either with a port: 10.0.0.2:22")
    return host, int(port) if port else None


def _methods(peer: str, say: Callable[[str], None]) -> list[Callable[[], Method]]:
    host, port = split_peer(peer)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        say(f"round trip to {peer}: the name is not known ({error})")
        return []
    # On an ICMP socket the port is the id, or unused.
    found = Peer(family, address, port is not None)
    quiet = found._replace(address=(address[0], 0, *address[2:]))
    methods: list[Callable[[], Method]] = [
        lambda: Icmp(quiet, socket.SOCK_DGRAM),
        lambda: Icmp(quiet, socket.SOCK_RAW),
    ]
    if found.has_port:
        methods.append(lambda: Connect(found))
    return methods


def _checksum(packet: bytes) -> int:
    """The ICMP checksum; the kernel sets it on datagram sockets."""
    total = sum(int.from_bytes(packet[at : at + 2], "big") for at in range(0, len(packet), 2))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
