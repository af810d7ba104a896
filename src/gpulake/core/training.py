"""A training run: each GPU over time, its phases, and the times of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

Maybe = float | None


@dataclass(frozen=True)
class TrainingPhase:
    """A stretch in which something was wrong."""

    kind: str
    began_at: datetime
    ended_at: datetime
    detail: str  # what was seen, in numbers
    remedy: str

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.began_at).total_seconds()


@dataclass(frozen=True)
class TrainingGpu:
    """One GPU, a place a time. None: not measured."""

    node: str
    gpu: str
    name: str  # as people call it
    times: tuple[datetime, ...]
    tracks: dict[str, tuple[Maybe, ...]]  # by what they are called; shares of what there is
    phases: tuple[TrainingPhase, ...]


@dataclass(frozen=True)
class TrainingStep:
    ended_at: datetime
    seconds: float


@dataclass(frozen=True)
class TrainingPart:
    """What some of a run's time went to (gold_run_goodput)."""

    part: str
    seconds: float
    time_ratio: float
    gpu_hours: float | None  # None: no job is known


@dataclass(frozen=True)
class TrainingReport:
    gpus: tuple[TrainingGpu, ...]
    steps: tuple[TrainingStep, ...] = ()
    parts: tuple[TrainingPart, ...] = ()  # of a run of the lake
    notes: tuple[str, ...] = ()  # what could not be read or determined, a sentence each

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        begins = [gpu.times[0] for gpu in self.gpus if gpu.times]
        ends = [gpu.times[-1] for gpu in self.gpus if gpu.times]
        return (max(ends) - min(begins)).total_seconds() if begins else 0.0

    @property
    def phases(self) -> list[tuple[TrainingGpu, TrainingPhase]]:
        """Of all GPUs, in the order of time."""
        every = [(gpu, phase) for gpu in self.gpus for phase in gpu.phases]
        return sorted(every, key=lambda found: (found[1].began_at, found[0].node, found[0].gpu))
