"""The latest values. The thread of the sampler only stores rows; readers take a snapshot."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpulake.collect.identity import Identity
from gpulake.collect.rows import (
    Cost,
    GpuProcess,
    GpuSample,
    HostSample,
    NicSample,
    NodeEvent,
    Process,
    ProcessEnd,
    ProcessSample,
    Row,
)
from gpulake.core.clock import Clock, SystemClock

STALE_INTERVALS = 3
LEAST_STALE_MS = 3_000  # a short pause of a fast sampler does not make its values stale
MOST_KINDS = 1_000  # of events: a bound for untrusted text
WINDOW_MS = 300_000  # dcgm-exporter's default
MOST_RECENT = 10_000
MOST_KEYS = 1_000  # a bound for untrusted text

PCI = re.compile(r"(?:PCI:)?(?:[0-9a-f]{4})?([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", re.IGNORECASE)

Key = tuple[str, int]  # GPU (or the subject of the event, if it is no known GPU) and Xid


@dataclass(frozen=True)
class XidCounts:
    total: Mapping[Key, int]
    recent: Mapping[Key, int]
    last: Mapping[str, int]


class Xids:
    def __init__(self) -> None:
        self._total: dict[tuple[str, int, str], int] = {}  # by subject, code and source
        self._recent: deque[tuple[int, str, int, str]] = deque(maxlen=MOST_RECENT)
        self._last: dict[str, tuple[int, int]] = {}

    def add(self, elapsed_ms: int, subject: str, code: int, source: str) -> None:
        key = (subject, code, source)
        if key not in self._total and len(self._total) >= MOST_KEYS:
            return
        self._total[key] = self._total.get(key, 0) + 1
        self._recent.append((elapsed_ms, *key))
        self._last[subject] = max(self._last.get(subject, (0, 0)), (elapsed_ms, code))

    def counts(self, elapsed_ms: int, gpus: Mapping[str, GpuSample]) -> XidCounts:
        gpu_of = _by_address(gpus)
        recent: dict[tuple[str, int, str], int] = dict.fromkeys(self._total, 0)
        for at_ms, subject, code, source in self._recent:
            if elapsed_ms - at_ms <= WINDOW_MS:
                recent[subject, code, source] += 1
        last: dict[str, tuple[int, int]] = {}
        for subject, found in self._last.items():
            gpu = gpu_of(subject)
            last[gpu] = max(found, last.get(gpu, (0, 0)))
        return XidCounts(
            total=_once(self._total.items(), gpu_of),
            recent=_once(recent.items(), gpu_of),
            last={gpu: code for gpu, (_, code) in last.items()},
        )


def _once(counts: Iterable[tuple[tuple[str, int, str], int]], gpu_of: Callable[[str], str]) -> dict[Key, int]:
    """The kernel and NVML both report an Xid: the count is that of the source with more reports."""
    by_source: dict[tuple[str, int, str], int] = {}
    for (subject, code, source), count in counts:
        key = (gpu_of(subject), code, source)
        by_source[key] = by_source.get(key, 0) + count
    most: dict[Key, int] = {}
    for (gpu, code, _), count in by_source.items():
        most[gpu, code] = max(count, most.get((gpu, code), 0))
    return most


def _by_address(gpus: Mapping[str, GpuSample]) -> Callable[[str], str]:
    """The kernel names a GPU by its PCI address, NVML by its uuid."""
    uuids = {
        address(sample.pci_bus_id): uuid
        for uuid, sample in gpus.items()
        if sample.pci_bus_id is not None and sample.parent_uuid is None
    }
    return lambda subject: uuids.get(address(subject), subject)


def address(text: str) -> str:
    """A PCI address in one spelling; other texts unchanged."""
    found = PCI.fullmatch(text)
    return ":".join(found.groups()).lower() if found else text


@dataclass(frozen=True)
class Gpu:
    sample: GpuSample
    since_ms: int  # its counters have not been reset since then
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True)
class Snapshot:
    """The current values; stale ones are left out."""

    identity: Identity
    now_ms: int  # of the last tick
    elapsed_ms: int  # of the last tick
    boot_ms: int  # boot time of the host, as seen when the collector began
    begun_ms: int  # when the collector began
    is_fresh: bool
    host: HostSample | None
    nics: tuple[NicSample, ...]
    processes: tuple[tuple[Process, ProcessSample], ...]
    gpus: tuple[Gpu, ...]
    known_gpus: Mapping[str, GpuSample]  # by uuid: the last sample of each, however old, to name the GPU of an Xid
    xids: XidCounts
    events: Mapping[str, int]  # by kind
    sources: Mapping[str, bool]
    pushed: Mapping[str, int]
    cost: Cost | None


class State:
    """Latest values. `observe` is what the sampler calls."""

    def __init__(self, *, interval_seconds: float = 1.0, clock: Clock | None = None) -> None:
        self.stale_ms = max(LEAST_STALE_MS, round(STALE_INTERVALS * interval_seconds * 1000))
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._identity: Identity | None = None
        self._now_ms = self._elapsed_ms = self._boot_ms = self._begun_ms = 0
        self._host: HostSample | None = None
        self._host_at = 0
        self._nics: dict[str, tuple[NicSample, int]] = {}
        self._processes: dict[int, Process] = {}
        self._samples: dict[int, ProcessSample] = {}
        self._gpus: dict[str, tuple[GpuSample, int]] = {}
        self._gpu_processes: dict[str, tuple[GpuProcess, ...]] = {}
        self._xids = Xids()
        self._events: dict[str, int] = {}
        self._cost: Cost | None = None
        self._sources: dict[str, bool] = {}
        self._pushed: dict[str, int] = {}

    def observe(self, identity: Identity, tick_elapsed_ms: int, now_ms: int, rows: Sequence[Row]) -> None:
        """Stores the rows of a tick. It must be cheap: the sampler waits for it."""
        with self._lock:
            if self._identity is None:
                self._boot_ms = now_ms - tick_elapsed_ms
                self._begun_ms = now_ms
            self._identity = identity
            self._now_ms = now_ms
            self._elapsed_ms = tick_elapsed_ms
            on_gpus: dict[str, list[GpuProcess]] = {}
            for row in rows:
                if isinstance(row, ProcessSample):
                    self._samples[row.pid] = row
                elif isinstance(row, GpuProcess):
                    on_gpus.setdefault(row.gpu_uuid, []).append(row)
                else:
                    self._store(row)
            for uuid, found in on_gpus.items():
                self._gpu_processes[uuid] = tuple(found)

    def source(self, name: str, *, is_up: bool) -> None:
        """Whether a source is readable. Processes come as changes: without their source they are unknown."""
        with self._lock:
            self._sources[name] = is_up

    def pushed(self, counts: Mapping[str, int]) -> None:
        """Counts of the pusher: points sent and dropped."""
        with self._lock:
            self._pushed = dict(counts)

    def is_fresh(self) -> bool:
        return self._identity is not None and self._age_ms() <= self.stale_ms

    def snapshot(self) -> Snapshot | None:
        """The current values; None before the first tick."""
        with self._lock:
            if self._identity is None:
                return None
            is_fresh = self._age_ms() <= self.stale_ms
            samples = self._samples
            found = [(process, samples[pid]) for pid, process in self._processes.items() if pid in samples]
            nics = [nic for nic, at in self._nics.values() if self._elapsed_ms - at <= self.stale_ms]
            has_host = is_fresh and self._elapsed_ms - self._host_at <= self.stale_ms
            known = {uuid: sample for uuid, (sample, _) in self._gpus.items()}
            return Snapshot(
                identity=self._identity,
                now_ms=self._now_ms,
                elapsed_ms=self._elapsed_ms,
                boot_ms=self._boot_ms,
                begun_ms=self._begun_ms,
                is_fresh=is_fresh,
                host=self._host if has_host else None,
                nics=tuple(nics) if is_fresh else (),
                processes=tuple(found) if is_fresh and self._sources.get("pid", True) else (),
                gpus=self._fresh_gpus(),
                known_gpus=known,
                xids=self._xids.counts(self._elapsed_ms, known),
                events=dict(self._events),
                sources=dict(self._sources),
                pushed=dict(self._pushed),
                cost=self._cost,
            )

    def _store(self, row: Row) -> None:
        if isinstance(row, Process):
            old = self._processes.get(row.pid)
            if old is not None and old.proc_id != row.proc_id:
                self._samples.pop(row.pid, None)  # of another process that had this pid
            self._processes[row.pid] = row
        elif isinstance(row, ProcessEnd):
            self._processes.pop(row.pid, None)
            self._samples.pop(row.pid, None)
        elif isinstance(row, HostSample):
            self._host, self._host_at = row, self._elapsed_ms
        elif isinstance(row, NicSample):
            self._nics[row.iface] = (row, self._elapsed_ms)
        elif isinstance(row, GpuSample):
            self._store_gpu(row)
        elif isinstance(row, NodeEvent):
            self._count(row)
        elif isinstance(row, Cost):
            self._cost = row

    def _store_gpu(self, row: GpuSample) -> None:
        old, since_ms = self._gpus.get(row.gpu_uuid, (None, self._now_ms))
        if old is not None and _has_gone_back(old.energy_joules_total, row.energy_joules_total):
            since_ms = self._now_ms  # the driver was reloaded
        self._gpus[row.gpu_uuid] = (row, since_ms)
        if row.processes == 0:
            self._gpu_processes.pop(row.gpu_uuid, None)

    def _count(self, event: NodeEvent) -> None:
        if event.kind in self._events or len(self._events) < MOST_KINDS:
            self._events[event.kind] = self._events.get(event.kind, 0) + 1
        if event.kind == "xid" and event.code is not None:
            self._xids.add(event.elapsed_ms, event.subject, event.code, event.source)

    def _fresh_gpus(self) -> tuple[Gpu, ...]:
        """A GPU without new samples is left out: a constant value would look valid."""
        now_ms = self._elapsed_ms + max(0, self._age_ms())
        fresh = []
        for uuid, (sample, since_ms) in self._gpus.items():
            if now_ms - sample.elapsed_ms > self.stale_ms:
                continue
            users = self._gpu_processes.get(uuid, ())
            shown = tuple(user for user in users if now_ms - user.elapsed_ms <= self.stale_ms)
            fresh.append(Gpu(sample, since_ms, shown))
        return tuple(fresh)

    def _age_ms(self) -> int:
        return round(self._clock.elapsed() * 1000) - self._elapsed_ms


def _has_gone_back(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now < before
