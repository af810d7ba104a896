"""What was found lands in the journal: the diagnosis, the templates of its log, and the incident that it belongs to.

An incident is one run of one log: of a job, where the caller or the scheduler says which, else of a path; its number in
the log and when it began. What the log says of its own job is kept as a claim: whoever writes another's id into his log
changes nothing about the other's incidents.
The same again changes that incident and opens no other. A healthy run opens none; where the same run was an open
incident (it was diagnosed while it still ran, or by older rules), that is resolved. What a person confirmed or
corrected stays as they said, and so does a state that a person chose.

The journal is appended to without the lake's lock, like the runs: a diagnosis must not wait for a build. Whoever
changes incidents takes turns, so that what a person says meanwhile is not lost. Templates are written first, the
diagnosis next and the change of the incident last: a crash in between leaves rows that no incident names, and incidents
as they were.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.clock import Clock
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.incidents import CARRIED, LOCK
from gpulake.core.kinds import Severity
from gpulake.core.redaction import redacted
from gpulake.core.tables import written_tables
from gpulake.diagnose.logs.digest import Digest, Template
from gpulake.diagnose.logs.shapes import template_of
from gpulake.diagnose.past.recall import words_for

if TYPE_CHECKING:
    from gpulake.lake import Lake

BY = "gpulake"
KIND = "failure"


def incident_id(diagnosis: Diagnosis, log: str) -> str:
    """The same for the same run of the same log, whatever is found in it."""
    subject = ["job", diagnosis.cluster_id or "", diagnosis.job_id] if diagnosis.job_id else ["log", log]
    began = diagnosis.began_at.isoformat() if diagnosis.began_at is not None else ""
    told = json.dumps([*subject, diagnosis.run, began])
    return "f-" + hashlib.sha256(told.encode()).hexdigest()[:16]


def subject_of(log: Path | str) -> str:
    """A log by its whole path; standard input, which has none, by its name."""
    return str(log.absolute()) if isinstance(log, Path) else log


def severity(diagnosis: Diagnosis) -> Severity:
    """Critical is what may hit other jobs too; what the owner of the job has to mend is a warning."""
    if diagnosis.verdict == "healthy":
        return "info"
    if diagnosis.recovery.action == "cordon_node_and_restart" or diagnosis.category == "infrastructure":
        return "critical"
    return "warning"


def record(
    lake: Lake,
    clock: Clock,
    diagnosis: Diagnosis,
    digests: Sequence[Digest],
    log: Path | str,
    told: Sequence[Quote] = (),
) -> str:
    """The incident of the diagnosis; empty for a healthy run, which is none. `told` is what recall compares where the
    diagnosis has no evidence."""
    name = subject_of(log)
    now = clock.now()
    identity = incident_id(diagnosis, name)
    diagnosis_id = uuid.uuid4().hex
    words = words_for(diagnosis, told)
    with lake.alone(LOCK, is_patient=True):
        event = _event(diagnosis, name, identity, diagnosis_id, now, history_of(lake, identity), words)
        belongs_to = identity if event is not None else ""
        lake.append("log_templates", _template_rows(diagnosis_id, digests))
        lake.append("diagnoses", [_diagnosis_row(diagnosis, diagnosis_id, belongs_to, name, now)])
        if event is not None:
            lake.append("incident_events", [event])
    return belongs_to


def history_of(lake: Lake, identity: str) -> list[dict[str, Any]]:
    """The changes of an incident, the last one last, as the table incidents orders them; without the engine. Rows
    that are none of ours are left out."""
    rows = [row for row in lake.journal("incident_events") if row.get("incident_id") == identity and _is_timed(row)]
    return sorted(rows, key=_at)  # of two at the same time the order of writing stays


def _is_timed(row: dict[str, Any]) -> bool:
    try:
        return _at(row).tzinfo is not None
    except (KeyError, TypeError, ValueError):
        return False


def _at(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["changed_at"])


def _diagnosis_row(diagnosis: Diagnosis, diagnosis_id: str, incident: str, log: str, now: datetime) -> dict[str, Any]:
    document = diagnosis.as_document()
    told = {name: document[name] for name in written_tables()["diagnoses"].column_names if name in document}
    own = {"diagnosis_id": diagnosis_id, "incident_id": incident, "diagnosed_at": now, "log": log}
    return told | own | {"action": diagnosis.recovery.action, "action_why": diagnosis.recovery.why}


def _template_rows(diagnosis_id: str, digests: Sequence[Digest]) -> list[dict[str, Any]]:
    return [
        {
            "diagnosis_id": diagnosis_id,
            "file": digest.name,
            **_said(template),
            "lines": template.lines,
            "first_line": template.first_line,
            "is_routine": template.is_routine,
        }
        for digest in digests
        for template in digest.templates
    ]


def _said(template: Template) -> dict[str, str]:
    """A template has the letters of a secret, too: it is made anew of what may be kept."""
    example = redacted(template.example)
    if example == template.example:
        return {"template": template.text, "example": example}
    return {"template": template_of(example.encode(errors="replace")).decode(), "example": example}


def _event(
    diagnosis: Diagnosis,
    log: str,
    identity: str,
    diagnosis_id: str,
    now: datetime,
    history: list[dict[str, Any]],
    words: str,
) -> dict[str, Any] | None:
    """The change of the incident; none for a healthy run that never was one."""
    is_healthy = diagnosis.verdict == "healthy"
    before = history[-1] if history else None
    if before is None and is_healthy:
        return None
    # A clock that was set back must not hide the change behind the one before it.
    now = max(now, _at(before)) if before is not None else now
    event, state = _step(is_healthy, history)
    found = {
        "severity": severity(diagnosis),
        "category": diagnosis.category,
        "reason": diagnosis.reason,
        "cause": diagnosis.cause,
        "remedy": diagnosis.remedy,
        "words": words,
        "is_confirmed": False,
    }
    if before is not None and (before.get("is_confirmed") is True or is_healthy):
        # What a person said stays; and recall needs what it was, and not that it is over.
        found = {name: before.get(name) for name in found}
    return {
        "incident_id": identity,
        "changed_at": now,
        "event": event,
        "changed_by": BY,
        "kind": KIND,
        "state": state,
        "subject": log,
        "cluster_id": diagnosis.cluster_id,
        "job_id": diagnosis.job_id,
        "node": None if diagnosis.is_node_claimed else diagnosis.node,
        "opened_at": before.get("opened_at") if before is not None else now,
        "diagnosis_id": diagnosis_id,
        **found,
        "began_at": diagnosis.began_at,
        "last_seen_at": diagnosis.ended_at,
        **({name: before.get(name) for name in CARRIED if name in before} if before is not None else {}),
        "claimed_job_id": diagnosis.claimed_job_id,
        "claimed_node": diagnosis.node if diagnosis.is_node_claimed else None,
        "gpu_hours_lost": diagnosis.gpu_hours_lost,
        "note": before.get("note") if before is not None else None,
    }


def _step(is_healthy: bool, history: list[dict[str, Any]]) -> tuple[str, str]:
    """What happens to the incident, and its state then."""
    if not history:
        return "opened", "open"
    was = str(history[-1].get("state"))
    if is_healthy:
        return ("updated", was) if was == "resolved" else ("resolved", "resolved")
    if was == "resolved":
        since = next((place for place, row in enumerate(reversed(history)) if row.get("state") != was), len(history))
        if history[-since].get("changed_by") == BY:  # a person who resolved it is not overruled
            return "reopened", "open"
    return "updated", was
