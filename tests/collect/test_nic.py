"""Interfaces, InfiniBand ports and round trips: recorded, real, and over this machine's loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from collect.hosts import RecordedHost, at, wait_until
from gpulake.collect.machine.ping import TIMESTAMP_NANOSECONDS, Connect, Icmp, Peer, Ping, split_peer
from gpulake.collect.rows import NicSample
from gpulake.collect.sources import Machine
from gpulake.collect.sources.nic import Nic, default_interfaces, find_ports
from gpulake.core.clock import SystemClock
from gpulake.core.errors import UsageError

ETH0 = NicSample(
    iface="eth0",
    rx_bytes_total=1_000_000,
    tx_bytes_total=500_000,
    rx_packets_total=2000,
    tx_packets_total=1500,
    rx_errors_total=3,
    tx_errors_total=1,
    rx_dropped_total=4,
    tx_dropped_total=2,
    carrier_changes_total=2,
    link_downed_total=None,
    symbol_errors_total=None,
    is_up=True,
    speed_bits_per_second=25_000_000_000,
    rtt_seconds=None,
    is_main=True,
)
TUN0 = NicSample("tun0", 70, 80, 7, 8, 0, 0, 0, 0, 2, None, None, True, None, None, is_main=False)
LO = NicSample("lo", 500, 500, 5, 5, 0, 0, 0, 0, 2, None, None, True, None, None, is_main=True)
PORT = NicSample(
    iface="mlx5_4/1",
    rx_bytes_total=230539874932483 * 4,
    tx_bytes_total=230442669431839 * 4,
    rx_packets_total=317548853677,
    tx_packets_total=315487941081,
    rx_errors_total=14,
    tx_errors_total=None,
    rx_dropped_total=None,
    tx_dropped_total=0,
    carrier_changes_total=None,
    link_downed_total=0,
    symbol_errors_total=0,
    is_up=True,
    speed_bits_per_second=400_000_000_000,
    rtt_seconds=None,
    is_main=False,
)


@pytest.fixture
def host(tmp_path: Path) -> RecordedHost:
    host = RecordedHost(tmp_path)
    host.network()
    return host


def test_interfaces_that_are_physical_or_up_are_read_and_the_default_route_tells_the_main_one(
    host: RecordedHost,
) -> None:
    assert list(Nic(host.machine()).read(at(0))) == [ETH0, TUN0]


def test_loopback_is_read_where_it_is_asked_for(host: RecordedHost) -> None:
    expected = [ETH0._replace(is_main=False), LO, TUN0]
    assert list(Nic(host.machine(interface="lo")).read(at(0))) == expected


def test_an_interface_that_is_not_there_is_the_users_error_and_names_those_that_are(host: RecordedHost) -> None:
    with pytest.raises(UsageError) as caught:
        Nic(host.machine(interface="ib7"))
    assert (caught.value.message, caught.value.hint) == (
        "no network interface named 'ib7'",
        "choose from: eth0, lo, tun0, virt0",
    )


def test_a_link_that_goes_down_is_reported_at_once_and_its_counters_stay(host: RecordedHost) -> None:
    source = Nic(host.machine())
    list(source.read(at(0)))
    host.interface("eth0", operstate="down", speed="-1", is_physical=True)
    host.write(host.sys / "class/net/eth0/carrier_changes", "3\n")
    assert next(iter(source.read(at(1)))) == ETH0._replace(is_up=False, carrier_changes_total=3)
    assert next(iter(source.read(at(11)))) == ETH0._replace(
        is_up=False, carrier_changes_total=3, speed_bits_per_second=None
    )


def test_interfaces_come_and_go(host: RecordedHost) -> None:
    source = Nic(host.machine())
    list(source.read(at(0)))
    lines = (host.proc / "net/dev").read_text().splitlines(keepends=True)
    new = lines[-1].replace("tun0", "eth9")
    host.interface("eth9", speed="100", is_physical=True)
    host.write(host.proc / "net/dev", "".join([*lines[:-1], new]))
    eth9 = TUN0._replace(iface="eth9", speed_bits_per_second=100_000_000)
    assert list(source.read(at(1))) == [ETH0, eth9]
    host.write(host.proc / "net/dev", "".join(lines[:2]))
    assert list(source.read(at(2))) == []


def test_an_ipv6_route_tells_the_main_interface_where_there_is_no_other(host: RecordedHost) -> None:
    host.write(host.proc / "net/route", "Iface\tDestination\n")
    zeros = "0" * 32
    host.write(
        host.proc / "net/ipv6_route",
        f"{zeros} 00 {zeros} 00 fe80000000000000000000000000fffe 00000400 00000005 00000000 00000003     tun0\n"
        f"{zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n",
    )
    assert default_interfaces(host.proc) == ["tun0"]
    assert [row.is_main for row in Nic(host.machine()).read(at(0))] == [False, True]


def test_this_machine_shows_its_loopback() -> None:
    rows = {row.iface: row for row in Nic(Machine(interface="lo")).read(SystemClock())}
    assert (rows["lo"].is_up, rows["lo"].is_main) == (True, True)


@pytest.mark.real
def test_real_infiniband_ports_are_read_in_bytes_and_bits(real_data: Path, tmp_path: Path) -> None:
    host = RecordedHost(tmp_path)
    (host.sys / "class").mkdir()
    tree = real_data / "node_logs/infiniband/class/testdata/sys-class-infiniband-h100.0"
    (host.sys / "class/infiniband").symlink_to(tree)
    names = [f"mlx5_{number}/1" for number in (0, 1, 4, 5, 6, 7, 8, 9)]
    source = Nic(host.machine(interface="mlx5_0/1"))
    rows = list(source.read(at(0)))
    assert [row.iface for row in rows] == [*names, "mlx5_bond_0/1"]
    assert [row.is_main for row in rows] == [True, *[False] * 8]
    assert rows[2] == PORT
    assert rows[8].speed_bits_per_second == 200_000_000_000
    assert list(source.read(at(0.1))) == []  # its firmware is asked once a second
    assert list(source.read(at(1))) == rows


def test_a_port_that_counts_nothing_is_none_and_not_zero(tmp_path: Path) -> None:
    host = RecordedHost(tmp_path)
    folder = host.sys / "class/infiniband/mlx5_0/ports/1"
    host.write(folder / "state", "1: DOWN\n")
    host.write(folder / "rate", "2.5 Gb/sec (1X SDR)\n")
    host.write(folder / "counters/port_rcv_data", "N/A (no PMA)\n")
    host.write(folder / "counters/link_downed", "0\n")
    (port,) = find_ports(host.sys)
    assert port.read(is_main=False) == PORT._replace(
        iface="mlx5_0/1",
        rx_bytes_total=None,
        tx_bytes_total=None,
        rx_packets_total=None,
        tx_packets_total=None,
        rx_errors_total=None,
        tx_dropped_total=None,
        symbol_errors_total=None,
        is_up=False,
        speed_bits_per_second=2_500_000_000,
    )


@pytest.fixture
def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def answer_of(way: Icmp | Connect, ask: Callable[[], None]) -> float:
    """Asks until there is an answer: the first may come too early for the kernel to have noted its time."""
    found: list[float] = []

    def is_answered() -> bool:
        seconds = way.receive()
        if seconds is None:
            ask()
            return False
        found.append(seconds)
        return True

    wait_until(is_answered)
    way.close()
    return found[0]


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_RAW])
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_an_echo_over_loopback_takes_less_than_a_second(family: int, address: str, kind: int) -> None:
    try:
        way = Icmp(Peer(family, (address, 0), has_port=False), kind)
    except OSError as error:
        pytest.skip(f"this machine does not permit it: {error}")
    assert 0 < answer_of(way, way.send) < 1


class FarSocket:
    """A socket whose peer answers when the test says so."""

    def __init__(self, *_: object) -> None:
        self.sent: list[bytes] = []
        self.arrived: list[tuple[bytes, int]] = []  # a packet, and when it came

    def setsockopt(self, *_: object) -> None: ...

    def connect(self, *_: object) -> None: ...

    def send(self, packet: bytes) -> None:
        self.sent.append(packet)

    def recvmsg(self, *_: object) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        if not self.arrived:
            raise BlockingIOError
        packet, at_ns = self.arrived.pop(0)
        stamp = (socket.SOL_SOCKET, TIMESTAMP_NANOSECONDS, struct.pack("=qq", *divmod(at_ns, 10**9)))
        return b"\0" + packet[1:], [stamp], 0, None


def test_an_answer_that_takes_longer_than_a_tick_counts_for_its_own_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_ns = iter([tick * 10**8 for tick in range(10)])
    monkeypatch.setattr("gpulake.collect.machine.ping.socket.socket", FarSocket)
    monkeypatch.setattr("gpulake.collect.machine.ping.time.time_ns", lambda: next(asked_ns))
    way = Icmp(Peer(socket.AF_INET, ("127.0.0.1", 0), has_port=False), socket.SOCK_DGRAM)
    peer = way._socket
    assert isinstance(peer, FarSocket)
    for _ in range(3):
        way.send()
        assert way.receive() is None
    peer.arrived = [(peer.sent[1], 10**8 + 250_000_000), (peer.sent[1], 10**9), (b"", 10**9)]
    assert way.receive() == 0.25
    assert way.receive() is None


def test_a_connection_that_takes_longer_than_a_tick_is_waited_for(listener: socket.socket) -> None:
    """The queue of a listener that accepts nobody fills up: the next has to wait."""
    with listener, contextlib.ExitStack() as others:
        listener.listen(0)
        for _ in range(3):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        way = Connect(Peer(socket.AF_INET, listener.getsockname(), has_port=True))
        way.send()
        waiting = way._socket
        assert waiting is not None
        assert way.receive() is None
        way.send()
        assert way._socket is waiting
        way.close()


def test_a_connection_over_loopback_takes_less_than_a_second(listener: socket.socket) -> None:
    with listener:
        way = Connect(Peer(socket.AF_INET, listener.getsockname(), has_port=True))
        assert 0 < answer_of(way, way.send) < 1


def test_a_refused_connection_has_no_round_trip(listener: socket.socket) -> None:
    address = listener.getsockname()
    listener.close()
    way = Connect(Peer(socket.AF_INET, address, has_port=True))
    way.send()
    assert way.receive() is None
    assert way.receive() is None


def test_the_round_trip_is_reported_with_the_main_interface(listener: socket.socket) -> None:
    host, port = listener.getsockname()
    source = Nic(Machine(interface="lo", peer=f"{host}:{port}"))
    found: list[NicSample] = []

    def is_measured() -> bool:
        found[:] = [row for row in source.read(SystemClock()) if row.rtt_seconds is not None]
        return bool(found)

    with listener:
        wait_until(is_measured)
    source.close()
    assert [row.iface for row in found] == ["lo"]


class Recorded:
    """A way with answers that are known beforehand."""

    def __init__(self, *answers: float | None) -> None:
        self._answers = list(answers)
        self.asked = self.closed = 0

    def send(self) -> None:
        self.asked += 1

    def receive(self) -> float | None:
        return self._answers.pop(0) if self._answers else None

    def close(self) -> None:
        self.closed += 1


def refused() -> Recorded:
    raise PermissionError(1, "Operation not permitted")


def test_a_way_that_is_never_answered_gives_room_to_the_next_that_is_permitted() -> None:
    silent, answering, said = Recorded(), Recorded(None, 0.5), list[str]()
    ping = Ping("node7:22", said.append, methods=[lambda: silent, refused, lambda: answering])
    assert [ping.exchange() for _ in range(8)] == [*[None] * 6, None, 0.5]
    assert (silent.asked, silent.closed, answering.asked, answering.closed) == (5, 1, 3, 0)
    assert said == []


def test_a_way_that_is_not_answered_stays_where_no_other_is_permitted() -> None:
    late, said = Recorded(*[None] * 20, 0.5), list[str]()
    ping = Ping("node7", said.append, methods=[lambda: late, refused])
    assert [ping.exchange() for _ in range(21)] == [*[None] * 20, 0.5]
    assert (late.asked, late.closed, said) == (21, 0, [])


def test_where_no_way_is_permitted_it_is_said_once() -> None:
    said: list[str] = []
    ping = Ping("node7", said.append, methods=[refused, refused])
    assert [ping.exchange() for _ in range(3)] == [None] * 3
    assert said == [
        "round trip to node7: not permitted (Operation not permitted; Operation not permitted); "
        "allow ICMP with net.ipv4.ping_group_range, or give the peer as host:port"
    ]


def test_what_is_not_permitted_is_said_once_and_the_rest_goes_on(host: RecordedHost) -> None:
    source = Nic(host.machine(peer="no-such-host.invalid"))
    assert list(source.read(at(0))) == [ETH0, TUN0]
    assert list(source.read(at(1))) == [ETH0, TUN0]
    (said,) = host.said
    assert said.startswith("round trip to no-such-host.invalid: the name is not known")


@pytest.mark.parametrize(
    ("peer", "parts"),
    [
        ("10.0.0.2", ("10.0.0.2", None)),
        ("node7:22", ("node7", 22)),
        ("fe80::1", ("fe80::1", None)),
        ("[fe80::1]:22", ("fe80::1", 22)),
        ("[::1]", ("::1", None)),
    ],
)
def test_a_peer_may_have_a_port(peer: str, parts: tuple[str, int | None]) -> None:
    assert split_peer(peer) == parts


@pytest.mark.parametrize("peer", ["node7:ssh", "node7:0", "node7:70000", ":22", "[::1]:x"])
def test_a_peer_that_makes_no_sense_is_the_users_error(peer: str) -> None:
    with pytest.raises(UsageError):
        split_peer(peer)
