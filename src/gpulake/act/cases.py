"""An incident to recover from: as it stands, and as it was diagnosed. Read from the journal, without the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gpulake.core.diagnosis import CATEGORY_OF, UNKNOWN, Action, Category, Diagnosis, Quote, Recovery
from gpulake.core.errors import UsageError
from gpulake.core.ids import the_one

Row = Mapping[str, Any]
# What to do where a person named another reason than the rules did: theirs is not the action of the rule.
_OF_CATEGORY: dict[Category, Action] = {
    "infrastructure": "auto_restart",
    "framework": "unknown",
    "script": "needs_code_fix",
    "none": "none",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class Case:
    incident_id: str
    diagnosis_id: str
    opened_at: datetime
    diagnosis: Diagnosis  # with the reason in force
    is_confirmed: bool = False  # by a person
    is_resolved: bool = False
    is_job_asked: bool = False  # whoever recovers it says which job it is

    @property
    def doubt(self) -> str:
        """Why nothing is done for the job: what its log says of itself is no proof."""
        claimed, job = self.diagnosis.claimed_job_id, self.diagnosis.job_id
        if self.is_job_asked or claimed is None or claimed == job:
            return ""
        if job is None:
            return f"the log says that it is of job {claimed}, which proves nothing; name the job with --job"
        return f"the log says that it is of job {claimed}, and not of {job}; say which it is with --job"

    @property
    def is_grounded(self) -> bool:
        """Rules and samples prove what they say. A model, or likeness to a past case, needs a person to confirm it."""
        return self.is_confirmed or self.diagnosis.method in ("rule", "telemetry")

    @property
    def failure(self) -> tuple[str, str | None]:
        return self.diagnosis.reason, self.diagnosis.node

    @property
    def failed_at(self) -> datetime:
        """A log whose clock is ahead cannot tell of what comes after it was diagnosed."""
        end = self.diagnosis.ended_at
        return self.opened_at if end is None else min(end, self.opened_at)

    def ran_seconds(self, since: datetime) -> float:
        """How long the run lasted: as its log tells, or else no longer than since that time."""
        begin, end = self.diagnosis.began_at, self.diagnosis.ended_at
        if begin and end:
            return (end - begin).total_seconds()
        return (self.opened_at - since).total_seconds()


def read_case(events: Sequence[Row], diagnoses: Sequence[Row], prefix: str, job_id: str | None = None) -> Case:
    """The one incident whose id begins like this."""
    standing = _standing(events)
    if not standing:
        raise UsageError(f"no incident {prefix!r}", "diagnose a log first: gpulake diagnose LOG")
    identity = the_one(prefix, standing, "incident", "gpulake incidents list")
    incident = standing[identity]
    own = [row for row in diagnoses if row.get("incident_id") == identity]
    named = [row for row in own if row.get("diagnosis_id") == incident.get("diagnosis_id")]
    if not own:
        raise UsageError(f"incident {identity} has no diagnosis", "diagnose its log again: gpulake diagnose LOG")
    row = (named or own)[-1]
    diagnosis = _in_force(incident, _diagnosis(row, incident, job_id))
    opened_at = _time(incident.get("opened_at")) or _time(incident.get("changed_at")) or _time(row["diagnosed_at"])
    assert opened_at is not None
    return Case(
        identity,
        row.get("diagnosis_id") or "",
        opened_at,
        diagnosis,
        is_confirmed=bool(incident.get("is_confirmed")),
        is_resolved=incident.get("state") == "resolved",
        is_job_asked=job_id is not None,
    )


def later_run(events: Sequence[Row], diagnoses: Sequence[Row], case: Case) -> str:
    """Another incident of the same job, of a run that began after this failure; empty: there is none."""
    if case.diagnosis.job_id is None:
        return ""
    by_id = {row.get("diagnosis_id"): row for row in diagnoses}
    for name, incident in _standing(events).items():
        row = by_id.get(incident.get("diagnosis_id"), {})
        began_at = _time(row.get("began_at"))
        if name == case.incident_id or began_at is None or began_at <= case.failed_at:
            continue
        if row.get("job_id") == case.diagnosis.job_id and is_same(row.get("cluster_id"), case.diagnosis.cluster_id):
            return name
    return ""


def is_same(cluster: str | None, other: str | None) -> bool:
    """Of clusters: one that nobody names may be any."""
    return cluster is None or other is None or cluster == other


def _standing(events: Sequence[Row]) -> dict[str, Row]:
    """How each incident stands, after its last change. Rows that are none of ours are passed over."""
    own = (row for row in events if isinstance(row.get("incident_id"), str) and row.get("kind", "failure") == "failure")
    return {row["incident_id"]: row for row in own}


def _diagnosis(row: Row, incident: Row, job_id: str | None) -> Diagnosis:
    known, claimed = row.get("job_id") or None, row.get("claimed_job_id") or None
    if "claimed_job_id" not in row:
        # Written before claims were told apart: nobody knows who named the job.
        known, claimed = None, known or incident.get("job_id") or None
    return Diagnosis(
        verdict=row.get("verdict") or "unknown",
        category=row.get("category") or "unknown",
        reason=row.get("reason") or UNKNOWN,
        cause=row.get("cause") or "",
        remedy=row.get("remedy") or "",
        evidence=tuple(
            Quote(int(quote["line"]), str(quote["text"]), str(quote.get("file") or ""))
            for quote in _list(row.get("evidence"))
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
        cluster_id=row.get("cluster_id") or incident.get("cluster_id") or None,
        gpu_hours_lost=row.get("gpu_hours_lost"),
        incident_id=row["incident_id"],
    )


def _in_force(incident: Row, made: Diagnosis) -> Diagnosis:
    """A person may have corrected the reason since."""
    reason = incident.get("reason") or made.reason
    if not incident.get("is_confirmed") or reason == made.reason:
        return made
    category: Category = CATEGORY_OF.get(reason, incident.get("category") or "unknown")
    action = _OF_CATEGORY.get(category, "unknown")
    recovery = Recovery(action, f"a person says that it was {reason}, and not {made.reason}")
    return replace(
        made,
        verdict="failed",
        category=category,
        reason=reason,
        cause=incident.get("cause") or "",
        remedy=incident.get("remedy") or "",
        evidence=(),
        node=incident.get("node") or incident.get("claimed_node") or None,
        recovery=recovery,
    )


def _list(value: Any) -> list[dict[str, Any]]:
    found = json.loads(value) if isinstance(value, str) and value else value
    return [quote for quote in found or [] if isinstance(quote, dict) and "line" in quote and "text" in quote]


def _time(value: object) -> datetime | None:
    if not value:
        return None
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
