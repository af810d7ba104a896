"""A failure to recover from: an incident as it stands, with its diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gpulake.core.diagnosis import CATEGORY_OF, UNKNOWN, Action, Category, Diagnosis, Quote, Recovery
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one
from gpulake.core.incidents import FAILURE, Incident
from gpulake.core.rows import json_rows

Row = Mapping[str, Any]
# The action where a person corrected the reason: that of the rule no longer applies.
_OF_CATEGORY: dict[Category, Action] = {
    "infrastructure": "auto_restart",
    "framework": "unknown",
    "script": "needs_code_fix",
    "none": "none",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class Failure:
    incident_id: str
    diagnosis_id: str
    opened_at: datetime
    diagnosis: Diagnosis  # with the reason in force
    is_confirmed: bool = False  # by a person
    is_resolved: bool = False
    is_job_given: bool = False  # by the person who recovers it

    @property
    def doubt(self) -> str:
        """Why nothing is done for the job: a log is no proof of which job it is of."""
        claimed, job = self.diagnosis.claimed_job_id, self.diagnosis.job_id
        if self.is_job_given or claimed is None or claimed == job:
            return ""
        if job is None:
            return f"the log says that it is of job {claimed}, which is no proof; name the job with --job"
        return f"the log says that it is of job {claimed}, and not of {job}; say which it is with --job"

    @property
    def is_grounded(self) -> bool:
        """Rules, samples and the scheduler's record are proof; a model or a similar incident needs a person."""
        return self.is_confirmed or self.diagnosis.method in ("rule", "telemetry", "scheduler")

    @property
    def signature(self) -> tuple[str, str | None]:
        return self.diagnosis.reason, self.diagnosis.node

    @property
    def failed_at(self) -> datetime:
        """By the log, but not after it was diagnosed: its clock may be ahead."""
        end = self.diagnosis.ended_at
        return self.opened_at if end is None else min(end, self.opened_at)

    def ran_seconds(self, since: datetime) -> float:
        """How long the run lasted: by its log, or else at most since that time."""
        begin, end = self.diagnosis.began_at, self.diagnosis.ended_at
        if begin and end:
            return (end - begin).total_seconds()
        return (self.opened_at - since).total_seconds()


def read_failure(
    standing: Mapping[str, Incident], diagnoses: Sequence[Row], prefix: str, job_id: str | None = None
) -> Failure:
    """The one incident whose id begins like this."""
    failures = {name: one for name, one in standing.items() if one.kind == FAILURE}
    if not failures:
        raise UsageError(f"no incident {prefix!r}", "diagnose a log first: gpulake diagnose LOG")
    identity = the_one(prefix, failures, "incident", "gpulake incidents list")
    incident = failures[identity]
    of_incident = [row for row in diagnoses if row.get("incident_id") == identity]
    named = [row for row in of_incident if row.get("diagnosis_id") == incident.diagnosis_id]
    if not of_incident:
        raise UsageError(f"incident {identity} has no diagnosis", "diagnose its log again: gpulake diagnose LOG")
    row = (named or of_incident)[-1]
    return Failure(
        identity,
        row.get("diagnosis_id") or "",
        incident.opened_at or incident.changed_at,
        _in_force(incident, _diagnosis(row, incident, job_id)),
        is_confirmed=incident.is_confirmed,
        is_resolved=incident.state == "resolved",
        is_job_given=job_id is not None,
    )


def later_run(standing: Mapping[str, Incident], diagnoses: Sequence[Row], failure: Failure) -> str:
    """Another incident of the same job, of a run that began after this failure; empty: there is none."""
    job, cluster = failure.diagnosis.job_id, failure.diagnosis.cluster_id
    if job is None:
        return ""
    by_id = {row.get("diagnosis_id"): row for row in diagnoses}
    for name, incident in standing.items():
        row = by_id.get(incident.diagnosis_id, {})
        began_at = _time(row.get("began_at"))
        if name == failure.incident_id or began_at is None or began_at <= failure.failed_at:
            continue
        if row.get("job_id") == job and is_same(row.get("cluster_id"), cluster):
            return name
    return ""


def is_same(cluster: str | None, other: str | None) -> bool:
    """An unknown cluster may be any."""
    return cluster is None or other is None or cluster == other


def _diagnosis(row: Row, incident: Incident, job_id: str | None) -> Diagnosis:
    known, claimed = row.get("job_id") or None, row.get("claimed_job_id") or None
    if "claimed_job_id" not in row:
        # Rows of older versions do not say who named the job.
        known, claimed = None, known or incident.job_id or None
    return Diagnosis(
        verdict=row.get("verdict") or "unknown",
        category=row.get("category") or "unknown",
        reason=row.get("reason") or UNKNOWN,
        cause=row.get("cause") or "",
        remedy=row.get("remedy") or "",
        evidence=tuple(
            Quote(int(quote["line"]), str(quote["text"]), str(quote.get("file") or ""))
            for quote in json_rows(row.get("evidence"))
            if "line" in quote and "text" in quote
        ),
        rank=row.get("rank"),
        node=row.get("node") or None,
        recovery=Recovery(row.get("action") or "unknown", row.get("action_why") or ""),
        confidence=row.get("confidence") or 0.0,
        method=row.get("method") or "model",
        began_at=_time(row.get("began_at")),
        ended_at=_time(row.get("ended_at")),
        job_id=job_id or known,
        claimed_job_id=claimed,
        cluster_id=row.get("cluster_id") or incident.cluster_id,
        gpu_hours_lost=row.get("gpu_hours_lost"),
        incident_id=row["incident_id"],
    )


def _in_force(incident: Incident, made: Diagnosis) -> Diagnosis:
    """A person may have corrected the reason since."""
    reason = incident.reason
    if not incident.is_confirmed or reason == made.reason:
        return made
    category: Category = CATEGORY_OF.get(reason, "unknown")
    action = _OF_CATEGORY.get(category, "unknown")
    recovery = Recovery(action, f"a person says that it was {reason}, and not {made.reason}")
    return replace(
        made,
        verdict="failed",
        category=category,
        reason=reason,
        cause=incident.cause,
        remedy=incident.remedy,
        evidence=(),
        node=incident.node or incident.claimed_node,
        recovery=recovery,
    )


def _time(value: object) -> datetime | None:
    if not value:
        return None
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
