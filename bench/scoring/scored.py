"""A diagnosis beside what is known, and the figures of many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.scoring.cases import Case
from gpulake.core.diagnosis import NOT_A_FAILURE, Diagnosis

_STOPS = ("needs_config_change", "needs_code_fix", "needs_data_fix")
_RESTARTS = ("auto_restart", "cordon_node_and_restart")


@dataclass(frozen=True)
class Scored:
    """A case, and what was found."""

    case: Case
    found: Diagnosis

    @property
    def is_right(self) -> bool:
        """Of a run of which only the outcome is known, a healthy one must be called healthy."""
        if self.case.outcome:
            return self.case.outcome != "success" or self.found.verdict == "healthy"
        return self.found.reason in self.case.accept

    @property
    def label(self) -> str:
        return self.case.accept[0] if self.case.accept else self.case.outcome

    @property
    def sure(self) -> float:
        return self.found.confidence

    @property
    def is_healthy(self) -> bool:
        return self.case.outcome == "success" or self.case.accept[:1] == (NOT_A_FAILURE,)

    @property
    def is_false_alarm(self) -> bool:
        return self.is_healthy and self.found.verdict == "failed"

    @property
    def is_false_stop(self) -> bool:
        """A change was asked for where a restart would have been enough."""
        return self.case.action in _RESTARTS and self.found.recovery.action in _STOPS

    @property
    def has_evidence(self) -> bool:
        quoted = [quote.text for quote in self.found.evidence]
        return any(expected.strip() in text for expected in self.case.evidence for text in quoted)

    @property
    def flaws(self) -> list[str]:
        named = {
            "reason": not self.is_right,
            "evidence": bool(self.case.evidence) and not self.has_evidence,
            "stop": self.is_false_stop,
            "alarm": self.is_false_alarm,
        }
        return [name for name, is_one in named.items() if is_one]


def figures(scored: Sequence[Scored]) -> dict[str, Any]:
    """Of one set. A share of nothing is None."""
    labelled = [one for one in scored if not one.case.outcome]
    with_action = [one for one in labelled if one.case.action not in ("", "unknown")]
    return {
        "cases": len(scored),
        "top1": share(one.is_right for one in scored),
        "macro_f1": macro_f1(labelled),
        "symptom_only": share(one.is_right for one in labelled if one.case.is_symptom_only),
        "evidence": share(one.has_evidence for one in labelled if one.case.evidence),
        "false_alarms": sum(one.is_false_alarm for one in scored),
        "healthy": sum(one.is_healthy for one in scored),
        "false_stops": sum(one.is_false_stop for one in scored),
        "action": share(one.found.recovery.action == one.case.action for one in with_action),
    }


def share(answers: Iterable[bool]) -> float | None:
    known = list(answers)
    return round(sum(known) / len(known), 3) if known else None


def macro_f1(scored: Sequence[Scored]) -> float | None:
    """Mean of F1 over the reasons that are labelled; an accepted answer counts as the label."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in scored:
        label = one.case.accept[0]
        if one.is_right:
            counts[label][0] += 1
        else:
            counts[one.found.reason][1] += 1
            counts[label][2] += 1
    labels = {one.case.accept[0] for one in scored}
    scores = [2 * hit / (2 * hit + extra + missed) for hit, extra, missed in (counts[label] for label in labels)]
    return round(sum(scores) / len(scores), 3) if scores else None
