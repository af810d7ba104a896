"""Lines of the lake that a learned rule is checked against: of healthy logs, and evidence of failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpulake.core.diagnosis import NOT_A_FAILURE
from gpulake.core.rows import json_rows
from gpulake.diagnose.learn.candidates import Proof

if TYPE_CHECKING:
    from gpulake.lake import Lake

MOST_LINES = 200_000  # of healthy logs, the newest ones

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Recurring:
    """A template of several healthy logs."""

    example: str
    logs: int
    lines: int


@dataclass(frozen=True)
class Seen:
    """A line of a recent log, and how many lines were like it."""

    text: str
    lines: int
    log: str


def past(lake: Lake) -> tuple[tuple[tuple[str, str], ...], tuple[Proof, ...]]:
    """Lines of healthy logs, each with its log; and evidence of failures."""
    diagnoses = lake.journal("diagnoses")
    confirmed = _confirmed(lake)
    healthy = _healthy(diagnoses, confirmed)
    lines = [
        (str(row["example"]), healthy[row["diagnosis_id"]])
        for row in lake.journal("log_templates")
        if row.get("diagnosis_id") in healthy and row.get("example")
    ]
    return tuple(dict(lines[-MOST_LINES:]).items()), tuple(_proofs(diagnoses, confirmed))


def recurring(lake: Lake, least_logs: int) -> list[Recurring]:
    """Templates of lines that no filter drops yet, in at least that many healthy logs, the most frequent first."""
    healthy = _healthy(lake.journal("diagnoses"), _confirmed(lake))
    logs: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    examples: dict[str, str] = {}
    for row in lake.journal("log_templates"):
        if row.get("diagnosis_id") not in healthy or row.get("is_routine") or not row.get("example"):
            continue
        template = str(row.get("template"))
        log = healthy[row["diagnosis_id"]]
        logs[template].add(log)
        counts[template][log] = int(row.get("lines") or 1)
        examples[template] = str(row["example"])
    found = [
        Recurring(examples[template], len(of), sum(counts[template].values()))
        for template, of in logs.items()
        if len(of) >= least_logs
    ]
    return sorted(found, key=lambda one: (-one.logs, -one.lines, one.example))


def recent(lake: Lake, most_logs: int) -> list[Seen]:
    """Lines of the newest logs: their templates and evidence."""
    newest = lake.journal("diagnoses")[-most_logs:]
    log_of = {row.get("diagnosis_id"): str(row.get("log")) for row in newest}
    seen = {
        (log_of[row["diagnosis_id"]], str(row["example"])): int(row.get("lines") or 1)
        for row in lake.journal("log_templates")
        if row.get("diagnosis_id") in log_of and row.get("example")
    }
    for row in newest:
        for text in (*quotes(row.get("evidence")), *quotes(row.get("symptoms"))):
            seen.setdefault((str(row.get("log")), text), 1)
    return [Seen(text, lines, log) for (log, text), lines in seen.items()]


def quotes(value: Any) -> list[str]:
    """The texts of evidence or symptoms in a row of a journal."""
    return [str(quote["text"]) for quote in json_rows(value) if "text" in quote]


def _confirmed(lake: Lake) -> dict[str, str]:
    """The reason of each incident that a person confirmed or corrected last."""
    return {name: one.reason for name, one in lake.incidents.standing().items() if one.is_confirmed}


def _healthy(diagnoses: Sequence[Row], confirmed: Mapping[str, str]) -> dict[str, str]:
    """Diagnoses of healthy logs, each with its log; a person's decision overrules the verdict. A log without a sign of
    failure does not count: it may have the line that a rule is wanted for."""
    found = {}
    for row in diagnoses:
        reason = confirmed.get(str(row.get("incident_id")))
        if (reason == NOT_A_FAILURE) if reason else (row.get("verdict") == "healthy" and row.get("rule")):
            found[str(row.get("diagnosis_id"))] = str(row.get("log"))
    return found


def _proofs(diagnoses: Sequence[Row], confirmed: Mapping[str, str]) -> Iterator[Proof]:
    for row in diagnoses:
        incident_id = str(row.get("incident_id") or "")
        reason, verdict = confirmed.get(incident_id), row.get("verdict")
        if reason == NOT_A_FAILURE or verdict == "healthy" or (not reason and verdict != "failed"):
            continue
        for index, text in enumerate(quotes(row.get("evidence"))):
            yield Proof(text, reason or str(row.get("reason")), incident_id, reason is not None and index == 0)
