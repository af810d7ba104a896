"""The smoke run fails when it should, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import BenchError
from bench.smoke import compare, fallen, measure, record

BENCH = Bench(Path("unused"), is_smoke=True)
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
    return {line.what: line.value for line in measure(BENCH, {part.what: part for part in parts}, COMMITTED)}


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


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """With a ratio of 4.0 that was recorded: the lower of two runs."""
    path = tmp_path / "performance.md"
    path.write_text("# Head\n\n## Log\n\nkept\n", encoding="utf-8")
    record(BENCH, {"refresh": Part("refresh", 4.6, 4.0)}, ["Smoke run", "Log"], path)
    assert path.read_text(encoding="utf-8").endswith("## Log\n\nkept\n")
    return path


def test_a_run_passes_against_what_it_recorded(page: Path) -> None:
    assert compare(BENCH, {"refresh": Part("refresh", 3.5)}, page) == 0


def test_a_run_fails_when_a_ratio_fell(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(BENCH, {"refresh": Part("refresh", 2.0, 2.1)}, page) == 1
    assert "error: refresh: 4.00 -> 2.10" in capsys.readouterr().err


def test_a_run_fails_when_two_sides_disagree(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def disagreeing(_: Bench) -> Iterator[Line]:
        raise BenchError("days or flags differ")

    assert compare(BENCH, {"refresh": disagreeing}, page) == 1
    assert capsys.readouterr().err.endswith("error: days or flags differ\n")
