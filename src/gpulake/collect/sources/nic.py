"""Network interfaces and InfiniBand ports: counters, state, speed, and the round trip to the peer of the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpulake.collect.machine.ping import Ping
from gpulake.collect.machine.procfs import KeptFile, number_in, read_if_any
from gpulake.collect.rows import NicSample
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError, choice_hint

WORD_BYTES = 4  # data counters are in words
# By field of NicSample.
COUNTERS = {
    "rx_bytes_total": "port_rcv_data",
    "tx_bytes_total": "port_xmit_data",
    "rx_packets_total": "port_rcv_packets",
    "tx_packets_total": "port_xmit_packets",
    "rx_errors_total": "port_rcv_errors",
    "tx_dropped_total": "port_xmit_discards",
    "link_downed_total": "link_downed",
    "symbol_errors_total": "symbol_error",
}


def find_ports(sys: Path) -> list[Port]:
    """Every port of every adapter, in the order of their names."""
    return [
        Port(folder, f"{folder.parent.parent.name}/{folder.name}")
        for folder in sorted((sys / "class/infiniband").glob("*/ports/*"))
        if folder.is_dir()
    ]


class Port:
    """One port; its name is like mlx5_4/1."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._rate = folder / "rate"
        self._state = KeptFile(folder / "state")
        self._counters = {field: KeptFile(folder / "counters" / file) for field, file in COUNTERS.items()}
        self.speed_bits_per_second = self._speed()

    def read(self, *, is_main: bool, rtt_seconds: float | None = None) -> NicSample:
        counts: dict[str, Any] = {field: number_in(file.read()) for field, file in self._counters.items()}
        for field in ("rx_bytes_total", "tx_bytes_total"):
            counts[field] = None if counts[field] is None else counts[field] * WORD_BYTES
        state = self._state.read()
        is_up = None if state is None else state.startswith(b"4:")  # "4: ACTIVE"
        if is_up and self.speed_bits_per_second is None:
            self.speed_bits_per_second = self._speed()
        return NicSample(
            iface=self.name,
            **counts,
            is_up=is_up,
            speed_bits_per_second=self.speed_bits_per_second,
            rtt_seconds=rtt_seconds,
            is_main=is_main,
        )

    def close(self) -> None:
        for file in (self._state, *self._counters.values()):
            file.close()

    def _speed(self) -> int | None:
        """From "400 Gb/sec (4X NDR)"."""
        words = (read_if_any(self._rate) or b"").split()
        if len(words) < 2 or words[1] != b"Gb/sec":
            return None
        try:
            return round(float(words[0]) * 1e9)
        except ValueError:
            return None


LOOK_SECONDS = 10.0  # between checks of interfaces, routes and speeds
PORT_SECONDS = 1.0  # an adapter queries its firmware for every counter of a port
ROUTE_IS_UP, ROUTE_REJECTS = 0x1, 0x200
MEGABIT = 1_000_000


@SOURCES.register("nic")
class Nic:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._net = machine.sys / "class/net"
        self._counters = KeptFile(machine.proc / "net/dev")
        self._ports = find_ports(machine.sys)
        self._links: dict[str, Link] = {}
        self._names: set[str] = set()
        self._main = machine.interface
        self._next_look: float | None = None
        self._next_ports: float | None = None
        self._check_interface()
        self._ping = Ping(machine.peer, machine.say) if machine.peer else None

    def read(self, clock: Clock) -> Iterable[NicSample]:
        text = self._counters.read()
        if text is None and not self._ports:
            raise NoData("the host shows no /proc/net/dev and no InfiniBand")
        counters = _counters(text or b"")
        elapsed = clock.elapsed()
        if self._next_look is None or elapsed >= self._next_look or counters.keys() != self._names:
            self._next_look = elapsed + LOOK_SECONDS
            self._look(counters.keys())
        rtt_seconds = self._ping.exchange() if self._ping else None
        rows = [
            link.read(
                counters[name], is_main=name == self._main, rtt_seconds=rtt_seconds if name == self._main else None
            )
            for name, link in self._links.items()
        ]
        if self._ports and (self._next_ports is None or elapsed >= self._next_ports):
            # Slightly less than a second: ticks are not exactly periodic.
            self._next_ports = elapsed + PORT_SECONDS * 0.9
            for port in self._ports:
                is_main = port.name == self._main
                rows.append(port.read(is_main=is_main, rtt_seconds=rtt_seconds if is_main else None))
        return rows

    def close(self) -> None:
        self._counters.close()
        for link in self._links.values():
            link.close()
        for port in self._ports:
            port.close()
        if self._ping:
            self._ping.close()

    def _check_interface(self) -> None:
        wanted = self._machine.interface
        known = {*_counters(self._counters.read() or b""), *(port.name for port in self._ports)}
        if wanted and wanted not in known:
            raise UsageError(f"no network interface named {wanted!r}", choice_hint(wanted, known))

    def _look(self, names: Iterable[str]) -> None:
        """Adds new and newly active interfaces, and removes those that are gone."""
        self._names = set(names)
        for name in [name for name in self._links if name not in self._names]:
            self._links.pop(name).close()
        for name in sorted(self._names - self._links.keys()):
            link = Link(self._net / name)
            if name == self._machine.interface or (name != "lo" and (link.is_physical() or link.is_up())):
                self._links[name] = link
            else:
                link.close()
        for link in self._links.values():
            link.read_speed()
        self._main = self._machine.interface or self._route_interface()

    def _route_interface(self) -> str:
        """The interface of the default route; without one the former, or the first."""
        known = [*self._links, *(port.name for port in self._ports)]
        for name in (*default_interfaces(self._machine.proc), self._main, *known):
            if name in known:
                return name
        return ""


class Link:
    """The files of one interface in /sys."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self._folder = folder
        self._operstate = KeptFile(folder / "operstate")
        self._carrier = KeptFile(folder / "carrier")
        self._carrier_changes = KeptFile(folder / "carrier_changes")
        self._speed_bits_per_second: int | None = None

    def is_physical(self) -> bool:
        return (self._folder / "device").exists()

    def is_up(self) -> bool | None:
        """Loopback and tunnels have an unknown state: then a carrier counts as up."""
        state = self._operstate.read()
        if state is None:
            return None
        if state.strip() == b"unknown":
            return number_in(self._carrier.read()) == 1
        return state.strip() == b"up"

    def read_speed(self) -> None:
        """Drivers return -1 or an error for an unknown speed."""
        megabits = number_in(read_if_any(self._folder / "speed"))
        self._speed_bits_per_second = megabits * MEGABIT if megabits is not None and megabits > 0 else None

    def read(self, counters: list[int], *, is_main: bool, rtt_seconds: float | None) -> NicSample:
        return NicSample(
            iface=self.name,
            rx_bytes_total=counters[0],
            tx_bytes_total=counters[8],
            rx_packets_total=counters[1],
            tx_packets_total=counters[9],
            rx_errors_total=counters[2],
            tx_errors_total=counters[10],
            rx_dropped_total=counters[3],
            tx_dropped_total=counters[11],
            carrier_changes_total=number_in(self._carrier_changes.read()),
            is_up=self.is_up(),
            speed_bits_per_second=self._speed_bits_per_second,
            rtt_seconds=rtt_seconds,
            is_main=is_main,
        )

    def close(self) -> None:
        for file in (self._operstate, self._carrier, self._carrier_changes):
            file.close()


def default_interfaces(proc: Path) -> list[str]:
    """The interfaces of the default routes, the preferred one first: IPv4, then IPv6."""
    routes = []
    for line in (read_if_any(proc / "net/route") or b"").splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[1] == fields[7] == b"00000000" and int(fields[3], 16) & ROUTE_IS_UP:
            routes.append((4, int(fields[6]), fields[0].decode("utf-8", "replace")))
    for line in (read_if_any(proc / "net/ipv6_route") or b"").splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[0] == b"0" * 32 and fields[1] == b"00":
            flags, name = int(fields[8], 16), fields[9].decode("utf-8", "replace")
            if flags & ROUTE_IS_UP and not flags & ROUTE_REJECTS and name != "lo":
                routes.append((6, int(fields[5], 16), name))
    return [name for _, _, name in sorted(routes)]


def _counters(text: bytes) -> dict[str, list[int]]:
    """The 16 counters of every interface, as /proc/net/dev has them: 8 received, 8 sent."""
    found = {}
    for line in text.splitlines():
        name, _, numbers = line.rpartition(b":")
        counters = numbers.split()
        if name and len(counters) >= 16 and counters[0].isdigit():
            found[name.strip().decode("utf-8", "replace")] = [int(number) for number in counters]
    return found
