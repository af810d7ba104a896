"""What one moment of a node or a GPU says, and how many such moments are kept in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpulake.formats.plausible import is_plausible

# Of one GPU or node. More are thinned out, the older ones first: what came before the end is what counts.
MOST_SAMPLES = 8_192
MOST_EVENTS = 4_096


@dataclass(frozen=True, slots=True)
class GpuSample:
    """None: it does not say. Times are seconds of the epoch: a day of samples is compared with them, over and over."""

    at_seconds: float
    node: str
    gpu: str
    busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    slowdown_temperature_celsius: float | None = None
    ecc_uncorrected: int | None = None
    last_xid: int | None = None
    clock_event_reasons: int | None = None  # NVML's bit mask
    pids: frozenset[int] | None = None


# By the vocabulary's field: ours.
GPU_FIELDS = {
    "gpu_busy_ratio": "busy_ratio",
    "memory_used_bytes": "memory_used_bytes",
    "memory_total_bytes": "memory_total_bytes",
    "power_watts": "power_watts",
    "temperature_celsius": "temperature_celsius",
    "slowdown_temperature_celsius": "slowdown_temperature_celsius",
    "ecc_uncorrected_total": "ecc_uncorrected",
    "last_xid": "last_xid",
    "clock_event_reasons": "clock_event_reasons",
}
COUNTS = {"ecc_uncorrected", "last_xid", "clock_event_reasons"}


def gpu_sample(at_seconds: float, node: str, gpu: str, measured: Mapping[str, float]) -> GpuSample:
    """From values by the vocabulary's fields; a value that cannot be is left out."""
    sound = {field: value for field, value in measured.items() if is_plausible(field, value)}
    if "memory_used_bytes" in sound and "memory_free_bytes" in sound:
        reserved = sound.get("memory_reserved_bytes", 0.0)
        total = sound["memory_used_bytes"] + sound["memory_free_bytes"] + reserved
        sound.setdefault("memory_total_bytes", total)
    if "graphics_active_ratio" in sound:  # it may be all that an exporter has
        sound.setdefault("gpu_busy_ratio", sound["graphics_active_ratio"])
    named = {ours: sound[field] for field, ours in GPU_FIELDS.items() if field in sound}
    values: dict[str, Any] = {ours: int(value) if ours in COUNTS else value for ours, value in named.items()}
    return GpuSample(at_seconds, node, gpu, **values)


@dataclass(frozen=True, slots=True)
class HostSample:
    at_seconds: float
    node: str
    memory_available_bytes: float | None = None  # what programs could still get
    memory_free_bytes: float | None = None  # what nothing uses: caches are not in it
    memory_total_bytes: float | None = None
    cpu_busy_ratio: float | None = None
    oom_kills: int | None = None  # since boot


@dataclass(frozen=True, slots=True)
class NodeEvent:
    at_seconds: float
    node: str
    kind: str  # xid, sxid, oom_kill, link_down, gpu_lost and so on
    subject: str = ""
    code: int | None = None
    pid: int | None = None
    message: str = ""


@dataclass(frozen=True)
class Window:
    """The time that counts, in seconds of the epoch; None: all of it."""

    since: float | None = None
    until: float | None = None

    def holds(self, at_seconds: float) -> bool:
        return (self.since is None or at_seconds >= self.since) and (self.until is None or at_seconds <= self.until)


@dataclass(frozen=True)
class Samples:
    gpus: dict[tuple[str, str], tuple[GpuSample, ...]] = field(default_factory=dict)  # by node and GPU, in time
    hosts: dict[str, tuple[HostSample, ...]] = field(default_factory=dict)
    events: tuple[NodeEvent, ...] = ()
    first_seconds: float | None = None  # of all that was read, whether it counts or not
    last_seconds: float | None = None
    notes: tuple[str, ...] = ()  # what could not be read, a sentence each

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that were sampled; an event alone is no sample."""
        return tuple(sorted({node for node, _ in self.gpus} | set(self.hosts)))

    @property
    def is_empty(self) -> bool:
        return not (self.gpus or self.hosts or self.events)


Sample = TypeVar("Sample", GpuSample, HostSample, NodeEvent)


def _add(series: list[Sample], sample: Sample, most: int) -> None:
    """Every other one of the older half goes when there are too many."""
    series.append(sample)
    if len(series) > most:
        half = len(series) // 2
        series[:half] = series[:half:2]


def _in_time(series: Iterable[Sample]) -> tuple[Sample, ...]:
    return tuple(sorted(series, key=lambda sample: sample.at_seconds))


class Gathering:
    """Samples as they are read."""

    def __init__(self, window: Window, most_samples: int = MOST_SAMPLES) -> None:
        self.window = window
        self._most = most_samples
        self.bad_rows = 0
        self._gpus: dict[tuple[str, str], list[GpuSample]] = {}
        self._hosts: dict[str, list[HostSample]] = {}
        self._events: list[NodeEvent] = []
        self._first: float | None = None
        self._last: float | None = None
        self._notes: list[str] = []

    def counts(self, at_seconds: float) -> bool:
        """Whether what is said of this moment is wanted; that it was said is remembered."""
        self._first = at_seconds if self._first is None else min(self._first, at_seconds)
        self._last = at_seconds if self._last is None else max(self._last, at_seconds)
        return self.window.holds(at_seconds)

    def add_gpu(self, sample: GpuSample) -> None:
        _add(self._gpus.setdefault((sample.node, sample.gpu), []), sample, self._most)

    def forget_gpu(self, node: str, gpu: str) -> None:
        self._gpus.pop((node, gpu), None)

    def add_host(self, sample: HostSample) -> None:
        _add(self._hosts.setdefault(sample.node, []), sample, self._most)

    def add_event(self, event: NodeEvent) -> None:
        if len(self._events) < MOST_EVENTS:
            self._events.append(event)

    def note(self, sentence: str) -> None:
        self._notes.append(sentence)

    def finished(self) -> Samples:
        notes = list(self._notes)
        if self.bad_rows:
            notes.append(f"{self.bad_rows} rows of the telemetry could not be read and were left out.")
        return Samples(
            gpus={subject: _in_time(series) for subject, series in sorted(self._gpus.items())},
            hosts={node: _in_time(series) for node, series in sorted(self._hosts.items())},
            events=_in_time(self._events),
            first_seconds=self._first,
            last_seconds=self._last,
            notes=tuple(notes),
        )
