"""Scores diagnoses against known answers: failed jobs, healthy runs and hangs, from a folder in their layout."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from bench.scoring.accuracy import baseline, by_cause, calibration, confusions, table
from bench.scoring.cases import HANGS, SETS, Case, HangCase, hangs
from bench.scoring.held_out import Support, rulebook_without, support
from bench.scoring.scored import Scored, figures, share
from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.cause.explaining import explain_last
from gpulake.diagnose.hang.blockage import find_hang
from gpulake.diagnose.hang.flight_recorder import read_dumps
from gpulake.diagnose.logs.reading import open_logs
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.losses import with_losses
from gpulake.diagnose.rulebook.book import Rulebook, shipped
from gpulake.diagnose.story.stories import read_stories
from gpulake.diagnose.telemetry.files import read_samples
from gpulake.diagnose.telemetry.samples import Samples
from gpulake.diagnose.telemetry.witness import consult

USAGE = "usage: scripts/score diagnose --data DIR [--verbose]"
CROSS_VALIDATED = ", cross-validated"


def diagnosed(case: Case, rulebook: Rulebook | None = None) -> Diagnosis:
    rulebook = rulebook or shipped()
    story, found = explain_last(read_stories([scan("", [case.log], rulebook)], rulebook))
    with NamedTemporaryFile(suffix=".log") as file:
        file.write(case.log)
        file.flush()
        found = with_losses(found, open_logs(Path(file.name)))
    return found if case.telemetry is None else consult(found, story, _samples(case.telemetry), rulebook)


@lru_cache(maxsize=1)
def _samples(telemetry: Path) -> Samples:
    return read_samples([telemetry])


def cross_validated(cases: Sequence[Case], supported: Support, by_rule: bool) -> list[Scored]:
    """Each case by the rules without what only its repository supports."""
    of_repository: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        of_repository[case.repository].append(case)
    found = []
    for repository, own in of_repository.items():
        rulebook = rulebook_without(repository, supported, by_rule)
        found += [Scored(case, diagnosed(case, rulebook)) for case in own]
    return found


def _hang_is_right(case: HangCase) -> bool:
    missing = frozenset(find_hang(read_dumps([case.dumps])).missing)
    return case.missing <= missing <= case.missing | case.at_fault


def score(folder: Path, is_verbose: bool = False) -> dict[str, dict[str, Any]]:
    """Sets that are absent are left out. The tables are printed."""
    present = {name: read for name, read in SETS.items() if (folder / name).is_dir() and any((folder / name).iterdir())}
    cases = {name: list(read(folder / name)) for name, read in present.items()}
    tuned = {name: [Scored(case, diagnosed(case)) for case in of_set] for name, of_set in cases.items()}
    everything = [case for of_set in cases.values() for case in of_set]
    supported = support(everything)
    set_of = {id(case): name for name, of_set in cases.items() for case in of_set}
    held_out, by_rule = (_by_set(cross_validated(everything, supported, whole), set_of) for whole in (False, True))
    results: dict[str, dict[str, Any]] = {}
    for name in cases:
        results[name] = figures(tuned[name])
        results[name + CROSS_VALIDATED] = figures(held_out[name])
        results[name + ", cross-validated by rule"] = figures(by_rule[name])
        results[name + ", last exception"] = figures(baseline(cases[name]))
    if (folder / HANGS).is_dir():
        answers = {case.id: _hang_is_right(case) for case in hangs(folder / HANGS)}
        results[HANGS] = {"cases": len(answers), "top1": share(answers.values())}
    for title, scored in (("", tuned), (CROSS_VALIDATED, held_out)):
        flawed = [one for of_set in scored.values() for one in of_set if one.flaws]
        sys.stdout.writelines(f"{_describe(one)}{title}\n" for one in flawed if is_verbose)
    _print_tables(
        *([one for of_set in sets.values() for one in of_set if not one.case.outcome] for sets in (tuned, held_out))
    )
    return results


def _by_set(scored: Sequence[Scored], set_of: dict[int, str]) -> dict[str, list[Scored]]:
    found: dict[str, list[Scored]] = {name: [] for name in set_of.values()}
    for one in scored:
        found[set_of[id(one.case)]].append(one)
    return found


def _print_tables(tuned: Sequence[Scored], held_out: Sequence[Scored]) -> None:
    for title, rows in (
        ("By cause", by_cause(tuned, held_out)),
        ("Calibration, tuned", calibration(tuned)),
        ("Calibration, cross-validated", calibration(held_out)),
        ("Wrong answers, cross-validated", confusions(held_out)),
    ):
        sys.stdout.write(f"\n{title}\n{table(rows)}\n")


def _describe(one: Scored) -> str:
    expected = "/".join(one.case.accept) or one.case.outcome
    found, line = one.found, one.found.evidence[0].line if one.found.evidence else None
    return (
        f"{'+'.join(one.flaws)}: {one.case.id}: expected {expected} ({one.case.action}), got {found.verdict} "
        f"{found.reason} ({found.recovery.action}) by {found.rule or found.method}, line {line}: {found.cause}"
    )


def _rows(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    names = list(dict.fromkeys(name for result in results.values() for name in result))
    return [
        ["set", *names],
        *([key, *(str(result.get(name, "")) for name in names)] for key, result in results.items()),
    ]


def main(arguments: Sequence[str]) -> int:
    if "--data" not in arguments or arguments[-1] == "--data":
        sys.stderr.write(USAGE + "\n")
        return 2
    results = score(Path(arguments[arguments.index("--data") + 1]), "--verbose" in arguments)
    sys.stdout.write(f"\n{table(_rows(results))}\n{json.dumps(results)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
