"""Counters into rates: rows of host, links, events and of the collector itself, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpulake.collect.cctf.blocks import Layout, Tick
from gpulake.collect.rows import Cost
from gpulake.collect.segments import Block

# The order of HostSample.cpu_ticks.
USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL = range(8)
BUSY = (USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL)
GAUGES = (
    *("load_1m", "load_5m", "load_15m", "processes_running", "processes_blocked"),
    *("memory_total_bytes", "memory_available_bytes", "swap_used_bytes", "disks", "oom_kills_total"),
)


def named(tick: Tick, elapsed_ms: int | None = None) -> dict[str, Any]:
    """The first columns of every row of a node."""
    at = tick.elapsed_ms if elapsed_ms is None else elapsed_ms
    return {"ts_ms": round(at) + tick.offset_ms} | tick.names.columns


def growth(now: int | float | None, before: int | float | None) -> int | float | None:
    """The increase of a counter; None if it decreased."""
    if now is None or before is None or now < before:
        return None
    return now - before


@dataclass
class HostSeries:
    """Rows of the host. Counters of different boots are not compared."""

    boot_id: str | None = None
    elapsed_ms: int = -1
    cpu_ticks: Sequence[int] = ()
    core_ticks: Sequence[Sequence[int]] = ()

    def rows(self, tick: Tick, layout: Layout, block: Block) -> Iterator[dict[str, Any]]:
        for sample in layout.rows(block, "host"):
            if tick.boot_id != self.boot_id:
                self.boot_id, self.elapsed_ms, self.cpu_ticks, self.core_ticks = tick.boot_id, -1, (), ()
            if tick.elapsed_ms <= self.elapsed_ms:
                continue  # the same time again
            yield self._row(tick, sample)
            self.elapsed_ms = tick.elapsed_ms

    def _row(self, tick: Tick, sample: Mapping[str, Any]) -> dict[str, Any]:
        ticks: Sequence[int] = sample.get("cpu_ticks") or ()
        cores: Sequence[Sequence[int]] = sample.get("core_ticks") or ()
        free = sample.get("memory_free_bytes")
        row = named(tick) | cpu_shares(ticks, self.cpu_ticks)
        row["core_busy_ratios"] = core_shares(cores, self.core_ticks)
        row["mem_free_mb"] = None if free is None else free / 1e6
        row.update({name: sample.get(name) for name in GAUGES})
        disks = sample.get("disks") or {}
        if disks:
            row["disk_read_bytes_total"] = sum(disk[0] for disk in disks.values())
            row["disk_written_bytes_total"] = sum(disk[1] for disk in disks.values())
            row["disk_busy_seconds_total"] = sum(disk[2] for disk in disks.values()) / 1000
        self.cpu_ticks, self.core_ticks = ticks, cores
        return row


def cpu_shares(now: Sequence[int], before: Sequence[int]) -> dict[str, float | None]:
    """Shares of the time of all cores between two samples. cpu_util is all that is not idle, as published."""
    shares: dict[str, float | None] = dict.fromkeys(
        ("cpu_util", "cpu_user_ratio", "cpu_system_ratio", "cpu_iowait_ratio", "cpu_steal_ratio")
    )
    if len(now) < 8 or len(before) < 8:
        return shares
    grown = [growth(now[part], before[part]) for part in range(8)]
    # iowait may decrease slightly; the other shares stay valid. idle decreases by hours when a core is turned off: then
    # nothing is known.
    everything = sum(part for part in grown if part is not None)
    if not everything or any(grown[part] is None for part in (*BUSY, IDLE)):
        return shares

    def share(*parts: int) -> float | None:
        found = [grown[part] for part in parts]
        return None if None in found else round(sum(part for part in found if part is not None) / everything, 6)

    shares["cpu_util"] = round(100 * (everything - (grown[IDLE] or 0)) / everything, 2)
    shares["cpu_user_ratio"] = share(USER, NICE)
    shares["cpu_system_ratio"] = share(SYSTEM, IRQ, SOFTIRQ)
    shares["cpu_iowait_ratio"] = share(IOWAIT)
    shares["cpu_steal_ratio"] = share(STEAL)
    return shares


def core_shares(now: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> list[float | None] | None:
    """Busy share of each core; None if the number of cores changed, since indexes may have shifted."""
    if not now or len(now) != len(before):
        return None
    shares: list[float | None] = []
    for (busy, everything), (busy_before, everything_before) in zip(now, before, strict=True):
        grown, all_grown = growth(busy, busy_before), growth(everything, everything_before)
        was_off = not everything_before  # its counters continue from an earlier value
        shares.append(None if grown is None or not all_grown or was_off else round(min(1.0, grown / all_grown), 4))
    return shares


class LinkSeries:
    """Rows of network interfaces, and of links.json."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], tuple[int, int | None, int | None]] = {}
        self._boot_id = ""
        self._links: dict[tuple[Any, ...], dict[str, Any]] = {}

    def rows(self, tick: Tick, layout: Layout, block: Block) -> Iterator[dict[str, Any]]:
        if tick.boot_id != self._boot_id:
            self._boot_id = tick.boot_id
            self._before.clear()
        for sample in sorted(layout.rows(block, "nic"), key=lambda sample: link_name(tick, sample)):
            key = (tick.names.node, str(sample.get("iface")))
            elapsed_ms, rx, tx = self._before.get(key, (-1, None, None))
            if tick.elapsed_ms <= elapsed_ms:
                continue  # the same time again
            span_ms = tick.elapsed_ms - elapsed_ms
            row = named(tick) | sample
            row["link"] = link_name(tick, sample)
            row["rx_Bps"] = per_second(growth(sample.get("rx_bytes_total"), rx), span_ms)
            row["tx_Bps"] = per_second(growth(sample.get("tx_bytes_total"), tx), span_ms)
            self._before[key] = (tick.elapsed_ms, sample.get("rx_bytes_total"), sample.get("tx_bytes_total"))
            self._note(tick, sample)
            yield row

    def links(self) -> list[dict[str, Any]]:
        """The interface of the run comes first."""
        return sorted(self._links.values(), key=lambda link: (link["u"], not link["is_main"], link["iface"]))

    def _note(self, tick: Tick, sample: Mapping[str, Any]) -> None:
        names = {"u": tick.names.node, "host_id": tick.names.host_id, "iface": str(sample.get("iface"))}
        key = (tick.names.node, str(tick.names.host_id), names["iface"])
        link = self._links.setdefault(
            key, names | {"v": f"{tick.names.node}.net", "BW_bps": 0, "PR_s": None, "is_main": False}
        )
        link["is_main"] = bool(sample.get("is_main"))
        if sample.get("speed_bits_per_second") is not None:
            link["BW_bps"] = sample["speed_bits_per_second"]
        rtt = sample.get("rtt_seconds")
        if rtt is not None and (link["PR_s"] is None or rtt / 2 < link["PR_s"]):
            link["PR_s"] = rtt / 2


def link_name(tick: Tick, sample: Mapping[str, Any]) -> str:
    return f"{tick.names.node}.{'nic' if sample.get('is_main') else sample.get('iface')}"


def per_second(grown: int | float | None, span_ms: int) -> float | None:
    return None if grown is None or span_ms <= 0 else round(grown * 1000 / span_ms, 3)


def event_rows(tick: Tick, layout: Layout, block: Block) -> Iterator[dict[str, Any]]:
    for event in layout.rows(block, "event"):
        yield named(tick, event.get("elapsed_ms")) | {
            name: event.get(name) for name in ("kind", "subject", "code", "pid", "message", "source")
        }


def cost_rows(tick: Tick, layout: Layout, block: Block) -> Iterator[dict[str, Any]]:
    """One row per value. Counters restart with each session of the collector, so the session is the instance."""
    for cost in layout.rows(block, "cost"):
        for name in Cost._fields:
            if cost.get(name) is not None:
                yield named(tick) | {
                    "metric": f"collector_{name}",
                    "value": cost[name],
                    "instance_id": f"collector-{tick.session}",
                }
