"""Counters into rates, tick by tick: rows of host, links, GPUs with their owners, events and of the collector itself.

A GPU is owned by the processes on it, else by those that were allocated it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from gpulake.collect.cctf.blocks import Layout, Tick
from gpulake.collect.machine.owners import names_gpu
from gpulake.collect.rows import Cost, GpuProcess, GpuSample
from gpulake.collect.segments import Block

if TYPE_CHECKING:
    from gpulake.collect.cctf.processes import Processes


Owner: TypeAlias = tuple[str, str]
FIELDS = GpuSample._fields[1:]  # all but its time


@dataclass
class GivenGpus:
    """The GPUs that processes were allocated, with the number of processes per owner."""

    _owners: dict[str, Counter[Owner]] = field(default_factory=dict)

    def add(self, process: Mapping[str, Any]) -> None:
        if given := process.get("given_gpus"):
            self._owners.setdefault(given, Counter())[_owner(process)] += 1

    def remove(self, process: Mapping[str, Any]) -> None:
        if given := process.get("given_gpus"):
            owners = self._owners[given]
            owners[_owner(process)] -= 1
            if owners[_owner(process)] <= 0:
                del owners[_owner(process)]
            if not owners:
                del self._owners[given]

    def owners_of(self, gpu: Mapping[str, Any]) -> set[Owner]:
        """Without unattributed processes: anyone may set the variable in a shell."""
        gpu_names = str(gpu.get("gpu_uuid")), gpu.get("gpu_index"), gpu.get("parent_uuid")
        named = (owners for given, owners in self._owners.items() if names_gpu(given, *gpu_names))
        return {owner for owners in named for owner in owners if owner[0] != "unattributed"}


def gpu_rows(
    tick: Tick, layout: Layout, block: Block, processes: Processes
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of gpu_metrics and of gpu_processes."""
    uses = list(layout.rows(block, "gpu_process"))
    samples = list(layout.rows(block, "gpu"))
    users = _Users(uses, samples)
    metrics = []
    for sample in samples:
        kind, owner_id, evidence = _holder(users.of(sample), processes.given.owners_of(sample))
        metrics.append(
            named(tick, sample.get("elapsed_ms"))
            | {name: sample.get(name) for name in FIELDS}
            | {"owner_kind": kind, "owner_id": owner_id, "owner_evidence": evidence}
        )
    return metrics, list(_process_rows(tick, uses, processes))


class _Users:
    """Owners of the processes on each GPU, including those on its MIG instances."""

    def __init__(self, uses: list[dict[str, Any]], samples: list[dict[str, Any]]) -> None:
        parents = {sample.get("gpu_uuid"): sample.get("parent_uuid") for sample in samples}
        self._at: dict[tuple[Any, Any], set[Owner]] = {}
        self._any: dict[Any, set[Owner]] = {}
        for use in uses:
            uuid = use.get("gpu_uuid")
            for gpu in {uuid, parents.get(uuid)} - {None}:
                self._at.setdefault((gpu, use.get("elapsed_ms")), set()).add(_owner(use))
                self._any.setdefault(gpu, set()).add(_owner(use))

    def of(self, sample: Mapping[str, Any]) -> set[Owner]:
        """At the time of the sample, else within the tick."""
        uuid = sample.get("gpu_uuid")
        found = self._at.get((uuid, sample.get("elapsed_ms")))
        if found is not None:
            return found
        return set() if sample.get("processes") == 0 else self._any.get(uuid, set())


def _process_rows(tick: Tick, uses: list[dict[str, Any]], processes: Processes) -> Iterator[dict[str, Any]]:
    for use in uses:
        comm = use.get("comm")
        yield (
            named(tick, use.get("elapsed_ms"))
            | {name: use.get(name) for name in GpuProcess._fields[1:]}
            | {
                "proc_id": processes.proc_id_of(use.get("pid")),
                "comm": comm if comm is not None else processes.comm_of(use.get("pid")),
            }
        )


def _holder(using: set[Owner], given: set[Owner]) -> tuple[str | None, str | None, str | None]:
    for owners, evidence in ((using, "process"), (given, "environment")):
        if len(owners) > 1:
            return "several", None, evidence
        for kind, owner_id in owners:
            return kind, owner_id, evidence
    return None, None, None


def _owner(row: Mapping[str, Any]) -> Owner:
    return str(row.get("owner_kind") or "unattributed"), str(row.get("owner_id") or "")


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
