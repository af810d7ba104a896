"""Tables of scored diagnoses: by cause, by confidence, wrong answers; and what a naive reader answers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from bench.scoring.cases import Case
from bench.scoring.scored import Scored
from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis

BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)  # a bin reaches up to the next one
_EXCEPTION = re.compile(r"^\W{0,3}(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt))\b", re.MULTILINE)
_SAME = {"KeyboardInterrupt": "UserInterrupt", "ModuleNotFoundError": "ImportError"}


def naive(case: Case) -> Diagnosis:
    """What a reader answers who looks for the last exception, and believes its class."""
    named = _EXCEPTION.findall(case.log.decode(errors="replace"))
    reason = _SAME.get(named[-1], named[-1]) if named else NOT_A_FAILURE
    return Diagnosis("failed" if named else "healthy", "unknown", reason if reason in CATEGORY_OF else UNKNOWN, "")


def by_cause(tuned: Sequence[Scored], held_out: Sequence[Scored]) -> list[list[str]]:
    """One row a label: cases, and how many of them are right."""
    rows = [["reason", "cases", "tuned", "cross-validated"]]
    labels = Counter(one.label for one in tuned)
    for label, cases in sorted(labels.items(), key=lambda pair: (-pair[1], pair[0])):
        right = [sum(one.is_right for one in scored if one.label == label) for scored in (tuned, held_out)]
        rows.append([label, str(cases), *map(str, right)])
    return rows


def calibration(scored: Sequence[Scored]) -> list[list[str]]:
    """One row a bin of confidence, and one of all answers of at least 0.8."""
    rows = [["confidence", "answers", "right", "share"]]
    for first, last in zip(BINS, (*BINS[1:], 1.01), strict=True):
        rows.append(_bin(f"{first:.1f} to {min(last, 1):.1f}", [one for one in scored if first <= one.sure < last]))
    return [*rows, _bin("at least 0.8", [one for one in scored if one.sure >= 0.8])]


def _bin(name: str, scored: Sequence[Scored]) -> list[str]:
    right = sum(one.is_right for one in scored)
    return [name, str(len(scored)), str(right), f"{right / len(scored):.3f}" if scored else ""]


def confusions(scored: Sequence[Scored]) -> list[list[str]]:
    """One row a pair of a label and a wrong answer."""
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in scored:
        if not one.is_right:
            pairs[one.label, one.found.reason].append(one.case.id)
    ordered = sorted(pairs.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [
        ["label", "answer", "cases", "which"],
        *([*pair, str(len(ids)), " ".join(ids)] for pair, ids in ordered),
    ]


def baseline(cases: Sequence[Case]) -> list[Scored]:
    return [Scored(case, replace(naive(case), confidence=0.0)) for case in cases]


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
