"""Ports of InfiniBand adapters, and of Ethernet adapters with RDMA, which have separate counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulake.collect.machine.procfs import KeptFile, number_in, read_if_any
from gpulake.collect.rows import NicSample

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
