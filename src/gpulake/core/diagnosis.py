"""A diagnosis of a job's log, and its vocabulary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

Verdict = Literal["failed", "healthy", "unknown"]
Category = Literal["infrastructure", "framework", "script", "none", "unknown"]
Action = Literal[
    "auto_restart",
    "cordon_node_and_restart",
    "needs_config_change",
    "needs_code_fix",
    "needs_data_fix",
    "none",
    "unknown",
]
Method = Literal["rule", "recall", "model", "telemetry", "scheduler"]

NOT_A_FAILURE = "NotAFailure"
UNKNOWN = "unknown"

_REASONS: dict[Category, str] = {
    "infrastructure": (
        "NVLinkError CUDAError NodeFailure ECCError XidError NetworkError ConnectionError PortInUse S3StorageError"
        " NCCLTimeoutError NCCLRemoteError NCCLConfigError HangStraggler DriverMismatch DiskFull ProcessKilled"
        " ProcessCrashed PreemptionSIGTERM SlurmTimeLimit JobCancelled"
    ),
    "framework": (
        "OutOfMemoryError HostOOMKilled SharedMemoryFull DataloaderKilled LossNaN LossSpike AttributeError RuntimeError"
        " AssertionError ValueError ZeroDivisionError ModelLoadingError DatasetLoadingError"
    ),
    "script": (
        "FileNotFoundError OSError TypeError NameError PermissionError ImportError KeyError SyntaxError ArgumentError"
        " CalledProcessError IndexError UserInterrupt"
    ),
    "none": NOT_A_FAILURE,
    "unknown": UNKNOWN,
}
# Every reason that a diagnosis may answer with, and its category.
CATEGORY_OF: dict[str, Category] = {
    reason: category for category, reasons in _REASONS.items() for reason in reasons.split()
}


@dataclass(frozen=True)
class Quote:
    """A line of the log, unchanged except for characters that a terminal would not show."""

    line: int  # from 1, counted by line feeds
    text: str
    file: str = ""  # where the log is a folder: the file below it


@dataclass(frozen=True)
class Symptom(Quote):
    """A line that the root cause brought about."""

    reason: str = UNKNOWN  # one of CATEGORY_OF, or the name of a rule without a reason


@dataclass(frozen=True)
class Recovery:
    action: Action = UNKNOWN  # type: ignore[assignment]
    why: str = ""


@dataclass(frozen=True)
class Similar:
    """A past incident that is like this one."""

    incident_id: str
    score: float  # 0 to 1
    reason: str
    cause: str
    is_confirmed: bool = False


@dataclass(frozen=True)
class Diagnosis:
    verdict: Verdict
    category: Category
    reason: str  # one of CATEGORY_OF
    cause: str  # the root cause in a sentence
    remedy: str = ""  # what to do, in a sentence or two
    evidence: tuple[Quote, ...] = ()  # lines that prove it, the best first
    symptoms: tuple[Symptom, ...] = ()
    rank: int | None = None  # where it began
    node: str | None = None
    is_node_claimed: bool = True  # only the log names it: neither the scheduler's record nor samples of the node do
    recovery: Recovery = field(default_factory=Recovery)
    confidence: float = 0.0  # 0 to 1; for calibration, never a threshold of policy
    method: Method = "rule"
    rule: str = ""  # the rule that named the reason
    missing_ranks: tuple[int, ...] = ()  # of a hang: the ranks for which the others wait
    telemetry: tuple[str, ...] = ()  # what the node's samples say of these minutes, a sentence each
    similar: tuple[Similar, ...] = ()
    lines_read: int = 0
    lines_kept: int = 0
    gpu_hours_lost: float | None = None
    began_at: datetime | None = None  # of the diagnosed run, according to its log
    ended_at: datetime | None = None
    run: int = 1  # which of the runs that the log holds, from 1
    runs: int = 1
    job_id: str | None = None  # by the caller or the scheduler
    claimed_job_id: str | None = None  # by the log itself, which is no proof
    cluster_id: str | None = None
    incident_id: str = ""  # where it was recorded

    @property
    def is_job_disputed(self) -> bool:
        """The log names another job than its caller."""
        return None not in (self.job_id, self.claimed_job_id) and self.job_id != self.claimed_job_id

    @property
    def is_silent(self) -> bool:
        """No line of the log says how the run ended: other sources may know."""
        return self.verdict == "unknown" or (self.verdict == "healthy" and not self.rule)

    def as_document(self) -> dict[str, Any]:
        """For machines: times in ISO 8601, files only where the log is a folder."""
        document = asdict(self)
        for quotes in (document["evidence"], document["symptoms"]):
            for quote in quotes:
                if not quote["file"]:
                    del quote["file"]
        for name in ("began_at", "ended_at"):
            document[name] = document[name].isoformat() if document[name] else None
        return document
