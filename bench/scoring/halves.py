"""Events found at a bounded rate of false alarms: tuned on one half of the series, reported on the other.

The halves are every other series of a set. Our detector runs as shipped, and is not tuned here. Every other method gets
the threshold that finds most on the first half: one score for all series, or one share of each series' points. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.scoring.alarms import count_alarms
from bench.scoring.baselines import baselines
from bench.scoring.methods import ours
from bench.scoring.sets import LabelledSeries, read_cases
from gpulake.core.errors import GpulakeError
from gpulake.detect.series import Bools, Floats

MOST_FALSE_ALARMS = 0.25  # a series and day
# One alarm that never ends finds everything, so that false alarms alone would not bound what is flagged.
MOST_FLAGGED = 0.05
SHARES = np.geomspace(1e-5, MOST_FLAGGED, 60)


class Point(NamedTuple):
    """Where a method operates on a half."""

    found: int
    events: int
    false_alarms_a_day: float
    flagged_ratio: float

    @property
    def found_ratio(self) -> float:
        return self.found / self.events if self.events else float("nan")

    @property
    def is_quiet(self) -> bool:
        return self.false_alarms_a_day <= MOST_FALSE_ALARMS and self.flagged_ratio <= MOST_FLAGGED


Cases = list[LabelledSeries]


def point(cases: Cases, flags: list[Bools]) -> Point:
    counts = [
        count_alarms(case.is_labelled[case.scored_from :], is_flagged, case.series.interval_ms)
        for case, is_flagged in zip(cases, flags, strict=True)
    ]
    days = sum(each.days for each in counts)
    return Point(
        sum(each.found for each in counts),
        sum(each.events for each in counts),
        sum(each.false_alarms for each in counts) / max(days, 1e-9),
        float(np.concatenate(flags).mean()) if flags else 0.0,
    )


def tuned(first: Cases, first_scores: list[Floats], second: Cases, second_scores: list[Floats]) -> tuple[Point, Point]:
    """With the threshold that finds most on the first half and is quiet there."""
    pooled = np.concatenate(first_scores)
    ways = [(_above(first_scores, value), _above(second_scores, value)) for value in np.quantile(pooled, 1 - SHARES)]
    ways += [(_top(first_scores, share), _top(second_scores, share)) for share in SHARES.tolist()]
    points = [(point(first, flags), others) for flags, others in ways]
    nothing = point(first, [np.zeros(len(score), dtype=np.bool_) for score in first_scores])
    best, others = nothing, [np.zeros(len(score), dtype=np.bool_) for score in second_scores]
    for here, flags in points:
        if here.is_quiet and here.found > best.found:
            best, others = here, flags
    return best, point(second, others)


def _above(scores: list[Floats], value: float) -> list[Bools]:
    return [np.asarray(score >= value) for score in scores]


def _top(scores: list[Floats], share: float) -> list[Bools]:
    return [np.asarray(score >= np.quantile(score, 1 - share)) for score in scores]


def compare(cases: Iterable[LabelledSeries], only: list[str]) -> dict[str, dict[str, tuple[Point, Point]]]:
    """By set and method, the operating point on the first half and on the second."""
    sets: dict[str, Cases] = {}
    for case in cases:
        sets.setdefault(case.collection, []).append(case)
    found: dict[str, dict[str, tuple[Point, Point]]] = {}
    for name, members in sets.items():
        first, second = members[::2], members[1::2]
        own = found.setdefault(name, {})
        own["ours"] = (_shipped(first), _shipped(second))
        for method, score in baselines().items():
            if not only or method in only:
                own[method] = tuned(first, [score(case) for case in first], second, [score(case) for case in second])
    return found


def _shipped(cases: Cases) -> Point:
    return point(cases, [ours(case).is_flagged for case in cases])


def _lines(found: dict[str, dict[str, tuple[Point, Point]]]) -> Iterator[str]:
    for name, own in found.items():
        titles = f"{'tuned on: found':>22}{'false/day':>11}{'reported: found':>22}{'false/day':>11}{'flagged':>9}"
        yield f"{name:<18}{titles}"
        for method, halves in own.items():
            cells = [f"{half.found} of {half.events} {half.found_ratio:7.1%}" for half in halves]
            rates = [f"{half.false_alarms_a_day:.3f}" for half in halves]
            flagged = f"{halves[1].flagged_ratio:.1%}"
            yield f"  {method:<16}{cells[0]:>22}{rates[0]:>11}{cells[1]:>22}{rates[1]:>11}{flagged:>9}"


def document(found: dict[str, dict[str, tuple[Point, Point]]]) -> dict[str, object]:
    return {
        name: {
            method: {
                half: {**values._asdict(), "found_ratio": values.found_ratio if values.events else None}
                for half, values in zip(("tuned", "reported"), halves, strict=True)
            }
            for method, halves in own.items()
        }
        for name, own in found.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/score detect-halves", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with nab/, smd/ or asd/, or one of these")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between rows of sets without times [60]")
    parser.add_argument("--method", action="append", default=[], help="compare with this one only; may be repeated")
    options = parser.parse_args(arguments)
    try:
        found = compare(read_cases(options.data, int(options.interval * 1000)), options.method)
    except GpulakeError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    sys.stdout.write("\n".join([*_lines(found), json.dumps(document(found))]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
