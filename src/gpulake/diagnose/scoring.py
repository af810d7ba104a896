"""How close diagnoses come to what is known: failed jobs, healthy ones, and hangs, of any folder of their layout."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulake.core.diagnosis import NOT_A_FAILURE, Diagnosis
from gpulake.diagnose.cause import explain_last
from gpulake.diagnose.rulebook import shipped
from gpulake.diagnose.scan import scan
from gpulake.diagnose.stories import read_stories

CHUNK_BYTES = 1 << 20
_STOPS = ("needs_config_change", "needs_code_fix", "needs_data_fix")
_RESTARTS = ("auto_restart", "cordon_node_and_restart")
# Words that refine a reason, and the reason that they name by themselves.
_OF_SUBTAG = {"port_in_use": "PortInUse", "host_oom": "HostOOMKilled", "shm": "SharedMemoryFull"}


@dataclass(frozen=True)
class Case:
    """A log, and what is known of it."""

    id: str
    chunks: tuple[bytes, ...]
    accept: tuple[str, ...]  # reasons that count as right, the label first
    action: str = ""
    evidence: tuple[str, ...] = ()
    is_symptom_only: bool = False
    outcome: str = ""  # success, aborted or none, where only that is known


@dataclass(frozen=True)
class Verdicted:
    case: Case
    diagnosis: Diagnosis

    @property
    def is_right(self) -> bool:
        if self.case.outcome:
            return self.diagnosis.verdict == {"success": "healthy"}.get(self.case.outcome, self.diagnosis.verdict)
        return self.diagnosis.reason in self.case.accept

    @property
    def is_healthy(self) -> bool:
        return self.case.outcome == "success" or self.case.accept[:1] == (NOT_A_FAILURE,)

    @property
    def is_false_alarm(self) -> bool:
        return self.is_healthy and self.diagnosis.verdict == "failed"

    @property
    def is_false_stop(self) -> bool:
        return self.case.action in _RESTARTS and self.diagnosis.recovery.action in _STOPS

    @property
    def has_evidence(self) -> bool:
        quoted = [quote.text for quote in self.diagnosis.evidence]
        return any(expected.strip() in text for expected in self.case.evidence for text in quoted)


def diagnosed(case: Case) -> Diagnosis:
    rulebook = shipped()
    return explain_last(read_stories([scan(case.id, case.chunks, rulebook)], rulebook))


def failure_logs(folder: Path) -> Iterator[Case]:
    with (folder / "cases.jsonl").open(encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            named = _OF_SUBTAG.get(row.get("subtag") or "")
            yield Case(
                id=row["id"],
                chunks=(row["log"].encode(),),
                accept=(row["reason"], *((named,) if named else ()), *row.get("accept", ())),
                action=row.get("recoverable", ""),
                evidence=tuple(row.get("evidence") or ()),
                is_symptom_only=bool(row.get("symptom_only")),
            )


def lab(folder: Path) -> Iterator[Case]:
    for row in map(json.loads, (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines()):
        log = folder / "logs" / f"{row['id']}.log"
        if log.exists():
            accept = (row["reason"], *row.get("accept", ()))
            yield Case(
                row["id"], (log.read_bytes(),), accept, row["recoverable"], is_symptom_only=bool(row["symptom_only"])
            )


def mlperf_logs(folder: Path) -> Iterator[Case]:
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            path = folder / "logs" / f"{row['file']}.gz"
            if path.exists():
                yield Case(row["file"], (gzip.decompress(path.read_bytes()),), (), outcome=row["outcome"])


SETS = {"failure_logs": failure_logs, "lab": lab, "mlperf_logs": mlperf_logs}


def figures(scored: Sequence[Verdicted]) -> dict[str, Any]:
    """Of one set. A share of nothing is None."""
    labelled = [one for one in scored if not one.case.outcome]
    symptom_only = [one for one in labelled if one.case.is_symptom_only]
    with_evidence = [one for one in labelled if one.case.evidence]
    with_action = [one for one in labelled if one.case.action not in ("", "unknown")]
    return {
        "cases": len(scored),
        "top1": _share(one.is_right for one in scored),
        "macro_f1": macro_f1(labelled),
        "symptom_only": _share(one.is_right for one in symptom_only),
        "evidence": _share(one.has_evidence for one in with_evidence),
        "false_alarms": sum(one.is_false_alarm for one in scored),
        "healthy": sum(one.is_healthy for one in scored),
        "false_stops": sum(one.is_false_stop for one in scored),
        "action": _share(one.diagnosis.recovery.action == one.case.action for one in with_action),
    }


def _share(answers: Iterable[bool]) -> float | None:
    told = list(answers)
    return round(sum(told) / len(told), 3) if told else None


def macro_f1(scored: Sequence[Verdicted]) -> float | None:
    """Mean of F1 over the reasons that are labelled; an accepted answer counts as the label."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in scored:
        label, answer = one.case.accept[0], one.diagnosis.reason
        if one.is_right:
            counts[label][0] += 1
        else:
            counts[answer][1] += 1
            counts[label][2] += 1
    labels = {one.case.accept[0] for one in scored}
    scores = [2 * hit / (2 * hit + extra + missed) for hit, extra, missed in (counts[label] for label in labels)]
    return round(sum(scores) / len(scores), 3) if scores else None


def _table(results: dict[str, dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for result in results.values() for name in result))
    rows = [["set", *names]] + [
        [key, *(str(result.get(name, "")) for name in names)] for key, result in results.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _miss(one: Verdicted) -> str:
    expected = "/".join(one.case.accept) or one.case.outcome
    flaws = [] if one.is_right else ["reason"]
    flaws += ["evidence"] if one.case.evidence and not one.has_evidence else []
    flaws += ["stop"] if one.is_false_stop else []
    flaws += ["alarm"] if one.is_false_alarm else []
    found = one.diagnosis
    return (
        f"{'+'.join(flaws):8} {one.case.id[:60]}: expected {expected} ({one.case.action}), got {found.verdict} "
        f"{found.reason} ({found.recovery.action}) by {found.rule}: {found.cause[:90]!r}"
        f" line {found.evidence[0].line if found.evidence else None}"
    )


def score(folder: Path, is_verbose: bool) -> dict[str, dict[str, Any]]:
    """Sets that are absent are left out."""
    results = {}
    for name, cases in SETS.items():
        if not (folder / name).exists() or not any((folder / name).iterdir()):
            continue
        scored = [Verdicted(case, diagnosed(case)) for case in cases(folder / name)]
        results[name] = figures(scored)
        if is_verbose:
            for one in scored:
                is_flawed = not one.is_right or one.is_false_stop or one.is_false_alarm
                if is_flawed or (one.case.evidence and not one.has_evidence):
                    print(_miss(one))
    return results


def main(arguments: Sequence[str]) -> int:
    if "--data" not in arguments or arguments[-1] == "--data":
        print("usage: scripts/score diagnose --data DIR [--verbose]", file=sys.stderr)
        return 2
    results = score(Path(arguments[arguments.index("--data") + 1]), "--verbose" in arguments)
    print(_table(results))
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
