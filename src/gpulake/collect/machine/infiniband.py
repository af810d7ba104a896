"""Ports of InfiniBand adapters, and of Ethernet adapters with RDMA, which have separate counters."""

from __future__ import annotations

from pathlib import Path

from gpulake.collect.machine.procfs import KeptFile, number_in, read_if_any
from gpulake.collect.rows import NicSample

WORD_BYTES = 4  # data counters are in words
COUNTERS = {
    "rx_words": "port_rcv_data",
    "tx_words": "port_xmit_data",
    "rx_packets": "port_rcv_packets",
    "tx_packets": "port_xmit_packets",
    "rx_errors": "port_rcv_errors",
    "tx_dropped": "port_xmit_discards",
    "link_downed": "link_downed",
    "symbol_errors": "symbol_error",
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
        self._counters = {word: KeptFile(folder / "counters" / file) for word, file in COUNTERS.items()}
        self.speed_bits_per_second = self._speed()

    def read(self, *, is_main: bool, rtt_seconds: float | None = None) -> NicSample:
        count = {word: number_in(file.read()) for word, file in self._counters.items()}
        state = self._state.read()
        is_up = None if state is None else state.startswith(b"4:")  # "4: ACTIVE"
        if is_up and self.speed_bits_per_second is None:
            self.speed_bits_per_second = self._speed()
        return NicSample(
            iface=self.name,
            rx_bytes_total=_words_to_bytes(count["rx_words"]),
            tx_bytes_total=_words_to_bytes(count["tx_words"]),
            rx_packets_total=count["rx_packets"],
            tx_packets_total=count["tx_packets"],
            rx_errors_total=count["rx_errors"],
            tx_dropped_total=count["tx_dropped"],
            link_downed_total=count["link_downed"],
            symbol_errors_total=count["symbol_errors"],
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


def _words_to_bytes(words: int | None) -> int | None:
    return None if words is None else words * WORD_BYTES
