"""A diagnosis lands in the journal: the diagnosis, the templates of its log, and the incident that it belongs to.

An incident is one run of one log: of a job, where the caller or the scheduler names it, else of a path; its number in
the log and when it began. The job that a log names itself is kept as a claim: a log that names another's job changes
nothing about the other's incidents.
The same run again changes its incident and opens no other. A healthy run opens none; where the same run was an open
incident (it was diagnosed while it still ran, or by older rules), that is resolved. A reason that a person confirmed
or corrected stays, and so does a state that a person chose.

Templates are written first, the diagnosis next and the change of the incident last: a crash in between leaves rows that
no incident names, and incidents as they were.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Container, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.clock import Clock
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.incidents import GPULAKE, JUDGED, Event, Incident, changed, resolution
from gpulake.core.kinds import Severity
from gpulake.core.redaction import redacted
from gpulake.core.tables import written_tables
from gpulake.diagnose.logs.digest import Digest, Template
from gpulake.diagnose.logs.shapes import template_of
from gpulake.diagnose.past.recall import words_for

if TYPE_CHECKING:
    from gpulake.lake import Lake


def incident_id(diagnosis: Diagnosis, log: str, known: Container[str] = ()) -> str:
    """The same for the same run of the same log, whatever the diagnosis says. Older versions gave failures the prefix
    of findings, f-; an incident that is known by it keeps it."""
    subject = ["job", diagnosis.cluster_id or "", diagnosis.job_id] if diagnosis.job_id else ["log", log]
    began = diagnosis.began_at.isoformat() if diagnosis.began_at is not None else ""
    digest = hashlib.sha256(json.dumps([*subject, diagnosis.run, began]).encode()).hexdigest()[:16]
    return f"f-{digest}" if f"f-{digest}" in known else f"i-{digest}"


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
    quotes: Sequence[Quote] = (),
) -> str:
    """The incident of the diagnosis; empty for a healthy run, which is none. `quotes` is what recall compares where
    the diagnosis has no evidence."""
    name = subject_of(log)
    now = clock.now()
    diagnosis_id = uuid.uuid4().hex
    with lake.incidents.changing() as incidents:
        identity = incident_id(diagnosis, name, incidents.histories)
        history = incidents.histories.get(identity, ())
        seen = _seen(diagnosis, name, diagnosis_id, words_for(diagnosis, quotes))
        event = _event(diagnosis.verdict == "healthy", identity, seen, now, history)
        belongs_to = identity if event is not None else ""
        lake.append("log_templates", _template_rows(diagnosis_id, digests))
        lake.append("diagnoses", [_diagnosis_row(diagnosis, diagnosis_id, belongs_to, name, now)])
        if event is not None:
            incidents.append([event])
    return belongs_to


def record_many(lake: Lake, clock: Clock, found: Sequence[tuple[Diagnosis, Path]]) -> None:
    """Many diagnoses at once, without the templates of their logs."""
    now = clock.now()
    rows, events = [], []
    with lake.incidents.changing() as incidents:
        for diagnosis, log in found:
            name, diagnosis_id = subject_of(log), uuid.uuid4().hex
            identity = incident_id(diagnosis, name, incidents.histories)
            seen = _seen(diagnosis, name, diagnosis_id, words_for(diagnosis, ()))
            history = incidents.histories.get(identity, ())
            event = _event(diagnosis.verdict == "healthy", identity, seen, now, history)
            rows.append(_diagnosis_row(diagnosis, diagnosis_id, identity if event is not None else "", name, now))
            events += [event] if event is not None else []
        lake.append("diagnoses", rows)
        incidents.append(events)


def _diagnosis_row(diagnosis: Diagnosis, diagnosis_id: str, incident: str, log: str, now: datetime) -> dict[str, Any]:
    document = diagnosis.as_document()
    values = {name: document[name] for name in written_tables()["diagnoses"].column_names if name in document}
    ids = {"diagnosis_id": diagnosis_id, "incident_id": incident, "diagnosed_at": now, "log": log}
    return values | ids | {"action": diagnosis.recovery.action, "action_why": diagnosis.recovery.why}


def _template_rows(diagnosis_id: str, digests: Sequence[Digest]) -> list[dict[str, Any]]:
    return [
        {
            "diagnosis_id": diagnosis_id,
            "file": digest.name,
            **_redacted(template),
            "lines": template.lines,
            "first_line": template.first_line,
            "is_routine": template.is_routine,
        }
        for digest in digests
        for template in digest.templates
    ]


def _redacted(template: Template) -> dict[str, str]:
    """A template holds the letters of a secret, too: it is made anew from the redacted example."""
    example = redacted(template.example)
    if example == template.example:
        return {"template": template.text, "example": example}
    return {"template": template_of(example.encode(errors="replace")).decode(), "example": example}


def _seen(diagnosis: Diagnosis, log: str, diagnosis_id: str, words: str) -> dict[str, Any]:
    """The values that a diagnosis gives its incident."""
    return {
        "subject": log,
        "cluster_id": diagnosis.cluster_id,
        "job_id": diagnosis.job_id,
        "node": None if diagnosis.is_node_claimed else diagnosis.node,
        "claimed_job_id": diagnosis.claimed_job_id,
        "claimed_node": diagnosis.node if diagnosis.is_node_claimed else None,
        "diagnosis_id": diagnosis_id,
        "began_at": diagnosis.began_at,
        "last_seen_at": diagnosis.ended_at,
        "gpu_hours_lost": diagnosis.gpu_hours_lost,
        "severity": severity(diagnosis),
        "words": words,
        **{name: getattr(diagnosis, name) for name in JUDGED},
    }


def _event(
    is_healthy: bool, identity: str, seen: dict[str, Any], now: datetime, history: Sequence[Incident]
) -> Incident | None:
    """The change of the incident; none for a healthy run that never was one."""
    if not history:
        return None if is_healthy else Incident(identity, now, "opened", GPULAKE, opened_at=now, **seen)
    before = history[-1]
    if before.is_confirmed or is_healthy:
        # A person's reason stays; of a healthy run recall needs the reason before, and not that it is over.
        seen = {name: value for name, value in seen.items() if name not in (*JUDGED, "severity", "words")}
    event: Event = "updated"
    if is_healthy and before.state != "resolved" and not before.is_held:
        event = "resolved"
    elif not is_healthy and before.state == "resolved" and resolution(history).changed_by == GPULAKE:
        event = "reopened"  # what a person resolved stays resolved
    return changed(before, event, GPULAKE, now, before.note, **seen)
