"""The smoke run fails when it should, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.smoke import fallen, measure

COMMITTED = {"refresh": 4.0, "marts": 2.0}


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        ({"refresh": 4.0, "marts": 2.0}, {}),
        ({"refresh": 9.0, "marts": 2.1}, {}),
        ({"refresh": 3.21, "marts": 1.61}, {}),
        ({"refresh": 3.19, "marts": 2.0}, {"refresh": "4.00 -> 3.19"}),
        ({"refresh": 0.0, "marts": 1.0}, {"refresh": "4.00 -> 0.000", "marts": "2.00 -> 1.00"}),
        ({"refresh": 4.0}, {"marts": "not measured any more"}),
        ({"refresh": 4.0, "marts": 2.0, "log": 7.0}, {"log": "not in the committed table"}),
    ],
    ids=["unchanged", "better", "a little lower", "more than a fifth lower", "both lower", "a line gone", "a new line"],
)
def test_a_ratio_fails_that_fell_by_more_than_a_fifth_or_is_missing(
    measured: dict[str, float], why: dict[str, str]
) -> None:
    assert fallen(COMMITTED, measured) == why


class Part:
    """Yields one ratio after another, a run each."""

    def __init__(self, what: str, *ratios: float) -> None:
        self.what, self.ratios, self.runs = what, ratios, 0

    def __call__(self, bench: Bench) -> Iterator[Line]:
        assert bench.is_smoke
        yield Line("seconds", 1e9, "s")
        yield cpu_ratio(self.what, self.ratios[self.runs], 1.0)
        self.runs += 1


def measured(*parts: Part) -> dict[str, float]:
    bench = Bench(Path("unused"), is_smoke=True)
    return {line.what: line.value for line in measure(bench, {part.what: part for part in parts}, COMMITTED)}


def test_only_a_part_that_fell_is_measured_again_and_its_better_run_counts() -> None:
    fell, held = Part("refresh", 2.0, 3.9), Part("marts", 1.9)
    assert measured(fell, held) == {"refresh": 3.9, "marts": 1.9}
    assert (fell.runs, held.runs) == (2, 1)


def test_a_part_that_falls_twice_stays_fallen() -> None:
    part = Part("refresh", 2.0, 1.5)
    assert measured(part) == {"refresh": 2.0}
    assert "refresh" in fallen(COMMITTED, measured(Part("refresh", 2.0, 1.5), Part("marts", 2.0)))


def test_a_new_line_alone_is_no_reason_to_measure_again() -> None:
    part = Part("log", 7.0)
    assert measured(part) == {"log": 7.0}
