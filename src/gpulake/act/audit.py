"""The audit trail of recoveries: rows of table `recoveries`, read back as what is known of each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from gpulake.core.errors import LakeError
from gpulake.core.words import label

StepName = Literal["decide", "test", "cordon", "restart", "rollback", "tell", "check", "uncordon"]
Status = Literal["planned", "started", "done", "failed", "refused", "unknown"]
DRY_RUN = "dry-run"
# A step that was started and has no result may have been done.
MAY_BE_DONE = ("started", "unknown", "done")
OPEN = ("started", "unknown")


@dataclass(frozen=True)
class AuditRow:
    recovery_id: str
    stepped_at: datetime
    run_id: str
    incident_id: str
    cluster_id: str | None
    job_id: str | None
    node: str | None
    action: str
    step: StepName
    executor: str
    status: Status
    attempt: int
    detail: Mapping[str, Any] = field(default_factory=dict)


def read_rows(rows: Iterable[Mapping[str, Any]]) -> list[AuditRow]:
    """A row that cannot be read may be a step that was taken: to skip it could mean to take the step twice."""
    read = []
    for row in rows:
        try:
            read.append(_row(row))
        except (KeyError, TypeError, ValueError) as error:
            name = label(row.get("recovery_id") or "without an id")
            raise LakeError(
                f"a row of table recoveries cannot be read ({name}): {label(error)}",
                "mend or remove that line of recoveries.jsonl; its step may have been taken",
            ) from error
    return read


def is_done(row: AuditRow) -> bool:
    return row.status == "done"


def is_real(row: AuditRow) -> bool:
    """In a dry run nothing was done."""
    return row.executor != DRY_RUN


def _row(row: Mapping[str, Any]) -> AuditRow:
    at = datetime.fromisoformat(row["stepped_at"])
    detail = row.get("detail")
    if row["step"] not in get_args(StepName) or row["status"] not in get_args(Status):
        raise ValueError(f"{row['step']} {row['status']} is no step")
    return AuditRow(
        recovery_id=str(row["recovery_id"]),
        stepped_at=at if at.tzinfo else at.replace(tzinfo=UTC),
        run_id=row.get("run_id", ""),
        incident_id=str(row["incident_id"]),
        cluster_id=row.get("cluster_id"),
        job_id=row.get("job_id"),
        node=row.get("node"),
        action=row.get("action", ""),
        step=row["step"],
        executor=str(row["executor"]),
        status=row["status"],
        attempt=int(row["attempt"]),
        detail=detail if isinstance(detail, dict) else {},
    )


def last_of_each(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """The last row of each step of each recovery, in the order in which the steps were started."""
    last: dict[tuple[str, str, str | None], AuditRow] = {}
    for row in rows:
        last[row.recovery_id, row.step, row.node] = row
    return list(last.values())


def last_recovery(rows: Sequence[AuditRow], incident_id: str) -> list[AuditRow]:
    """The rows of the incident's last recovery."""
    of_incident = [row for row in rows if row.incident_id == incident_id]
    return [row for row in of_incident if row.recovery_id == of_incident[-1].recovery_id]


def is_complete(recovery: Sequence[AuditRow]) -> bool:
    return any(row.step == "decide" and row.status == "done" for row in recovery)
