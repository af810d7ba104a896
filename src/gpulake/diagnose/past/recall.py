"""Recall: similar past incidents, by a local embedding of their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import re2

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis, Quote, Similar
from gpulake.core.incidents import Incident
from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.past.embedding import NoEmbedding, vectors
from gpulake.diagnose.past.recoveries import recovery_for
from gpulake.diagnose.rulebook.book import Rulebook

MOST_TEXTS = 6  # pieces of evidence that count
MOST_CHARACTERS = 400  # of each
MOST_INCIDENTS = 10_000  # the last ones that are compared
MOST_QUOTES = 3
# Calibrated on labelled failures, see docs/judge.md.
LEAST_SCORE = 0.5
LEAST_TO_DECIDE = 0.93
LEAST_WORDS_TO_DECIDE = 4  # fewer words are similar to everything
MOST_CONFIDENCE = 0.8
_REASONS = frozenset(CATEGORY_OF) - {UNKNOWN, NOT_A_FAILURE}
NAMES_COUNT = 0.2  # share of the score that a common name of an exception gives

# What differs between similar cases: addresses, paths, times, amounts, names of machines.
_PARTICULAR = re2.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+"
    r"|(?:[A-Za-z]:)?(?:[\\/][^\s\"'<>:,;()\[\]{}/\\]+){2,}[\\/]?"
    r"|[\w.+-]+@[\w.-]+"
    r"|[\w.:-]*\d[\w.:%-]*"  # whatever holds a digit
)
_NO_LETTER = re2.compile(r"[^A-Za-z_]+")
_NAME = re2.compile(r"\b[A-Z]\w*(?:Error|Exception|Interrupt|Failure|Exit)\b")
_ERROR = re2.compile(r"\b\w*(?:Error|Exception)\b|(?i)\b(?:error|fatal|failed|failure|panic|abort(?:ed)?|killed)\b")
# Roles of rules whose lines are in every failure and show no similarity.
_SAID_BY_ALL = ("wrapper", "teardown", "noise", "success", "start", "progress")


@dataclass(frozen=True)
class Recalled:
    diagnosis: Diagnosis
    note: str = ""  # why nothing was searched, where that can be fixed


def words_of(cause: str, evidence_texts: Iterable[str]) -> str:
    """The words that are compared: cause and evidence, without numbers, addresses, paths and names of machines."""
    found: dict[str, None] = {}
    for text in (cause, *list(evidence_texts)[:MOST_TEXTS]):
        plain = _NO_LETTER.sub(" ", _PARTICULAR.sub(" ", text[:MOST_CHARACTERS]))
        found[" ".join(plain.split())] = None
    return "\n".join(text for text in found if text)


def words_for(diagnosis: Diagnosis, quotes: Sequence[Quote] = ()) -> str:
    """The words of a diagnosis. Of an unknown one, only the error lines of its log: its cause and its last line are the
    same in all logs."""
    if diagnosis.reason == UNKNOWN:
        return words_of("", [quote.text for quote in quotes or diagnosis.evidence])
    return words_of(diagnosis.cause, [quote.text for quote in diagnosis.evidence or quotes])


def error_lines(lines: Sequence[Line], rulebook: Rulebook) -> tuple[Quote, ...]:
    """The last lines with an error that are not a launcher's, for logs without a matching rule."""
    found: list[Quote] = []
    for line in reversed(lines):
        if len(found) == MOST_QUOTES:
            break
        if not _ERROR.search(line.text[:MOST_CHARACTERS]):
            continue
        if any(hit.rule.role in _SAID_BY_ALL for hit in rulebook.hits(line.text, line.number)):
            continue
        found.append(Quote(line.number, line.text, line.file))
    return tuple(reversed(found))


def past_incidents(standing: Iterable[Incident]) -> tuple[Incident, ...]:
    """Those whose reason is known, the last ones changed."""
    known = [one for one in standing if one.reason in _REASONS and one.words]
    return tuple(sorted(known, key=lambda one: (one.changed_at, one.incident_id))[-MOST_INCIDENTS:])


def similar(
    incidents: Sequence[Incident], words: str, most: int = 5, except_id: str = "", least: float = LEAST_SCORE
) -> tuple[Similar, ...]:
    """The nearest first; of equals, the confirmed ones. Raises NoEmbedding where the extra is not installed."""
    # Incidents with the same reason and words count once: the confirmed one, else the last.
    distinct: dict[tuple[str, str], Incident] = {}
    for past in incidents:
        if past.incident_id == except_id:
            continue
        key = (past.reason, past.words)
        if key not in distinct or _rank(past) > _rank(distinct[key]):
            distinct[key] = past
    cases = list(distinct.values())
    if not cases or not words.strip():
        return ()
    scores = _scores(words, [past.words for past in cases])
    near = [
        Similar(past.incident_id, score, past.reason, past.cause, past.is_confirmed)
        for score, past in zip(scores, cases, strict=True)
        if score >= least
    ]
    return tuple(sorted(near, key=lambda case: (-case.score, not case.is_confirmed, case.incident_id))[:most])


def with_recall(diagnosis: Diagnosis, standing: Iterable[Incident], quotes: Sequence[Quote] = ()) -> Recalled:
    """The diagnosis with its similar cases; one that rules leave unknown takes the reason of a confirmed twin."""
    if diagnosis.verdict == "healthy":
        return Recalled(diagnosis)
    incidents = past_incidents(standing)
    words = words_for(diagnosis, quotes)
    if not incidents or not words:
        return Recalled(diagnosis)
    try:
        found = similar(incidents, words, except_id=diagnosis.incident_id)
    except NoEmbedding as error:
        return Recalled(diagnosis, str(error))
    diagnosis = replace(diagnosis, similar=found)
    if diagnosis.reason != UNKNOWN or len(words.split()) < LEAST_WORDS_TO_DECIDE:
        return Recalled(diagnosis)
    twins = [case for case in found if case.score >= LEAST_TO_DECIDE and case.is_confirmed]
    if len({case.reason for case in twins}) != 1:
        return Recalled(diagnosis)
    remedies = {past.incident_id: past.remedy for past in incidents}
    return Recalled(_as_twin(diagnosis, twins[0], remedies[twins[0].incident_id], quotes))


def _as_twin(diagnosis: Diagnosis, twin: Similar, remedy: str, quotes: Sequence[Quote]) -> Diagnosis:
    return replace(
        diagnosis,
        verdict="failed",
        category=CATEGORY_OF[twin.reason],
        reason=twin.reason,
        cause=twin.cause,
        remedy=remedy,
        evidence=tuple(quotes) or diagnosis.evidence,
        recovery=recovery_for(twin.reason),
        confidence=round(min(MOST_CONFIDENCE, twin.score), 2),
        method="recall",
    )


def _rank(past: Incident) -> tuple[bool, datetime, str]:
    return past.is_confirmed, past.changed_at, past.incident_id


def _scores(words: str, others: Sequence[str]) -> list[float]:
    """By the embedding, and by names of exceptions, which say more than the text around them."""
    query, *rest = vectors((words, *others))
    names = set(_NAME.findall(words))
    scores = []
    for vector, text in zip(rest, others, strict=True):
        likeness = float(query @ vector)
        theirs = set(_NAME.findall(text))
        if names or theirs:
            likeness = (1 - NAMES_COUNT) * likeness + NAMES_COUNT * bool(names & theirs)
        # Rounded, so that rounding errors do not decide the order of equals.
        scores.append(round(max(0.0, min(1.0, likeness)), 3))
    return scores
