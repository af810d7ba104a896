"""What the user is told: the cause, the lines that prove it, what to do, and why gpulake does not do it."""

from __future__ import annotations

from gpulake.act.cases import Case
from gpulake.core.words import label

MOST_QUOTES = 3
MOST_QUOTED = 160


def message(case: Case, why: str) -> str:
    """On one line, with nothing in it that could steer a terminal."""
    diagnosis = case.diagnosis
    job = f"Job {label(diagnosis.job_id)}" if diagnosis.job_id is not None else "The job"
    parts = [f"{job}: {label(diagnosis.reason)}. {label(diagnosis.cause, 400)}".rstrip(". ") + "."]
    for quote in diagnosis.evidence[:MOST_QUOTES]:
        where = f"{label(quote.file)} line" if quote.file else "Line"
        parts.append(f"{where} {quote.line:,}: {label(quote.text.strip(), MOST_QUOTED)}")
    if diagnosis.remedy:
        parts.append(f"What to do: {label(diagnosis.remedy, 400)}")
    parts.append(label(f"{why[:1].upper()}{why[1:]} (incident {case.incident_id})."))
    return " ".join(parts)
