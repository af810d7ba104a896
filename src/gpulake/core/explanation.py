"""Why a finding was made: the series around it, what was expected, and the jobs that ran then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Maybe = float | None


@dataclass(frozen=True)
class Track:
    """One metric around an alarm, a place a time. None: not measured, or nothing could be expected."""

    metric: str
    share: float  # of the alarm, 0..1
    values: tuple[Maybe, ...]
    expected: tuple[Maybe, ...]
    low: tuple[Maybe, ...]
    high: tuple[Maybe, ...]


@dataclass(frozen=True)
class Evidence:
    """The series of a finding, around its alarm. The metrics that contribute most come first."""

    subject: str
    unit: str
    interval_seconds: float
    times: tuple[datetime, ...]
    tracks: tuple[Track, ...]
    is_flagged: tuple[bool, ...]
    scores: tuple[float, ...]
    began_at: datetime  # the alarm's first flagged point, and its last
    ended_at: datetime
    peak: int  # its place in times
    threshold: Maybe  # of the score, at the peak; None: the past sets none yet
    detector: str
    history_points: int  # before the alarm
    history_since: datetime
    least_points: int


@dataclass(frozen=True)
class RanJob:
    """A job that held GPUs at that time."""

    cluster_id: str
    job_id: str
    user_id: str | None
    gpus: float
    gpu_hours: float  # of that time alone
    began_at: datetime
    ended_at: datetime
    status: str


@dataclass(frozen=True)
class Ran:
    """The jobs of that time with their users, the most GPU-hours first."""

    of: str  # such as: machine gpu-1
    since: datetime
    until: datetime
    jobs: tuple[RanJob, ...] = ()
    more: int = 0
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    explained_id: str  # the id that was asked for, in full
    finding: dict[str, Any]  # a row of findings; of one that the build no longer has, what its incident says
    severity: str
    evidence: Evidence | None
    ran: Ran | None
    others: Sequence[str] = field(default=())  # headlines of what else belongs to the incident

    @property
    def rests_on(self) -> str:
        """Where there is no series: why there is none."""
        watch = str(self.finding.get("watch") or "")
        if watch:
            return f"watch {watch} has no such series in the current build: its rows are gone, or the watch is"
        if self.finding.get("kind") == "node_fault":
            return (
                "it is an event that the machine reported, and no course of numbers; the machine's page shows its GPUs"
            )
        if self.finding.get("rank"):
            return "no watch found it: it is a comparison of whole days, users or clusters, described above"
        return "the current build did not find it: it was diagnosed from a log, or found by an earlier build"
