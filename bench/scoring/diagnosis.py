"""Scores diagnoses against known answers: failed jobs, healthy runs and hangs, from a folder in their layout."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.scoring.cases import HANGS, SETS, Case, HangCase, hangs
from gpulake.core.diagnosis import NOT_A_FAILURE, Diagnosis
from gpulake.diagnose.cause.explaining import explain_last
from gpulake.diagnose.hang.blockage import find_hang
from gpulake.diagnose.hang.flight_recorder import read_dumps
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import shipped
from gpulake.diagnose.story.stories import read_stories
from gpulake.diagnose.telemetry.files import read_samples
from gpulake.diagnose.telemetry.samples import Samples
from gpulake.diagnose.telemetry.witness import consult

_STOPS = ("needs_config_change", "needs_code_fix", "needs_data_fix")
_RESTARTS = ("auto_restart", "cordon_node_and_restart")
USAGE = "usage: scripts/score diagnose --data DIR [--verbose]"


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


def diagnosed(case: Case) -> Diagnosis:
    rulebook = shipped()
    story, found = explain_last(read_stories([scan("", [case.log], rulebook)], rulebook))
    return found if case.telemetry is None else consult(found, story, _samples(case.telemetry), rulebook)


@lru_cache(maxsize=1)
def _samples(telemetry: Path) -> Samples:
    return read_samples([telemetry])


def figures(scored: Sequence[Scored]) -> dict[str, Any]:
    """Of one set. A share of nothing is None."""
    labelled = [one for one in scored if not one.case.outcome]
    with_action = [one for one in labelled if one.case.action not in ("", "unknown")]
    return {
        "cases": len(scored),
        "top1": _share(one.is_right for one in scored),
        "macro_f1": macro_f1(labelled),
        "symptom_only": _share(one.is_right for one in labelled if one.case.is_symptom_only),
        "evidence": _share(one.has_evidence for one in labelled if one.case.evidence),
        "false_alarms": sum(one.is_false_alarm for one in scored),
        "healthy": sum(one.is_healthy for one in scored),
        "false_stops": sum(one.is_false_stop for one in scored),
        "action": _share(one.found.recovery.action == one.case.action for one in with_action),
    }


def _share(answers: Iterable[bool]) -> float | None:
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


def _hang_is_right(case: HangCase) -> bool:
    missing = frozenset(find_hang(read_dumps([case.dumps])).missing)
    return case.missing <= missing <= case.missing | case.at_fault


def score(folder: Path, is_verbose: bool = False) -> dict[str, dict[str, Any]]:
    """Sets that are absent are left out."""
    results: dict[str, dict[str, Any]] = {}
    for name, cases in SETS.items():
        if not (folder / name).is_dir() or not any((folder / name).iterdir()):
            continue
        scored = [Scored(case, diagnosed(case)) for case in cases(folder / name)]
        results[name] = figures(scored)
        if is_verbose:
            sys.stdout.writelines(_describe(one) + "\n" for one in scored if one.flaws)
    if (folder / HANGS).is_dir():
        answers = {case.id: _hang_is_right(case) for case in hangs(folder / HANGS)}
        results[HANGS] = {"cases": len(answers), "top1": _share(answers.values())}
    return results


def _describe(one: Scored) -> str:
    expected = "/".join(one.case.accept) or one.case.outcome
    found, line = one.found, one.found.evidence[0].line if one.found.evidence else None
    return (
        f"{'+'.join(one.flaws)}: {one.case.id}: expected {expected} ({one.case.action}), got {found.verdict} "
        f"{found.reason} ({found.recovery.action}) by {found.rule or found.method}, line {line}: {found.cause}"
    )


def _table(results: dict[str, dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for result in results.values() for name in result))
    rows = [
        ["set", *names],
        *([key, *(str(result.get(name, "")) for name in names)] for key, result in results.items()),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main(arguments: Sequence[str]) -> int:
    if "--data" not in arguments or arguments[-1] == "--data":
        sys.stderr.write(USAGE + "\n")
        return 2
    results = score(Path(arguments[arguments.index("--data") + 1]), "--verbose" in arguments)
    sys.stdout.write(f"{_table(results)}\n{json.dumps(results)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
