"""What is true of a small made-up cluster: clean, each thing once. Files tell it dirtily; the oracle reads it here.

Times are whole seconds of the Unix epoch; None: not recorded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

LOST = {"failed": "failed", "node_fail": "failed", "timeout": "timed_out", "interrupted": "interrupted"}
DAY = 86_400
HOUR = 3_600


@dataclass
class Job:
    job_id: str
    user: str | None
    group: str
    workload: str | None
    status: str
    submitted: int | None
    ended: int | None
    account: str | None = None


@dataclass
class Task:
    """A role of a job. A job of Slurm has one, called job."""

    job: Job
    name: str
    instances: int
    gpus: float | None  # of an instance; None: the task's row is missing, and nobody knows
    gpu_type: str | None
    launched: int | None
    ended: int | None


@dataclass
class Attempt:
    task: Task
    instance: str
    machine: str | None
    status: str
    began: int | None
    ended: int | None
    gpus: float | None
    used_gpus: float | None  # the mean over its life; None: no sensor
    window: tuple[int, int] | None = None  # of the machine's metric that names this worker
    number: int = 0  # among the tries of its instance, set by the oracle

    @property
    def job(self) -> Job:
        return self.task.job

    @property
    def recorded_end(self) -> int | None:
        """An end before its begin counts as missing."""
        if self.began is not None and self.ended is not None and self.ended < self.began:
            return None
        return self.ended


@dataclass(frozen=True)
class Snapshot:
    """What the scheduler said of a machine when it was asked."""

    machine: str
    asked: int
    state: str  # as Slurm writes it
    reason_at: int | None
    last_busy: int | None
    slurmd_started: int | None


@dataclass
class Sampled:
    """GPUs of a machine that telemetry saw: `count` samples of each, and which of them show it in use."""

    first: int
    count: int
    uses: list[list[bool]]


@dataclass
class Facts:
    """One cluster. `machines` is its inventory: GPU type and GPUs by name; empty: none landed."""

    seed: int
    cluster: str
    zone: str
    jobs: list[Job] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    machines: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    outages: list[tuple[str, int, int | None]] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    events: list[tuple[str, str, int, int | None]] = field(default_factory=list)  # outages that the scheduler recorded
    events_asked: int = 0
    pulled_from: int | None = None  # since when the accounting was asked for; the snapshots came with it
    checkpoints: list[tuple[str, int]] = field(default_factory=list)
    sampled: dict[str, Sampled] = field(default_factory=dict)
    has_placement: bool = True  # jobs are known to run on this machine or that
    gpu_type: str | None = None  # of all machines, where there is no inventory
    is_steady: bool = False  # its machines are hardly ever free
    missing_tasks: float = 0.0  # share of tasks without their row
    gpus_setting: int = 0
    gpu_type_setting: str = ""
    has_stale_running: bool = False
    observed_from: int | None = None
    observed_until: int | None = None
    # A day after it landed: about now.
    credible_until: int = field(default_factory=lambda: int(time.time()) + 24 * HOUR)
