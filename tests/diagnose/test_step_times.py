"""Times of steps from JSON lines, CSV and logs: the same steps, whatever they are told in."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.errors import InputError
from gpulake.diagnose.steps import Step, read_steps

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = AT.timestamp()
STEPS: list[Step] = [(SECOND + 1.5, 1.5), (SECOND + 3.5, 2.0), (SECOND + 4, 0.5)]


def written(folder: Path, *lines: str, name: str = "steps") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "lines",
    [
        [f'{{"ts_ms": {round(1000 * at)}, "step": 7, "step_ms": {1000 * took}}}' for at, took in STEPS],
        [f'{{"time": {at}, "seconds": {took}}}' for at, took in STEPS],
        ["time,seconds", *(f"{datetime.fromtimestamp(at, UTC).isoformat()},{took}" for at, took in STEPS)],
        ["\ufeffloss, ts_ms ,step_ms", *(f'"1,5",{1000 * at},{1000 * took}' for at, took in STEPS)],
        ["timestamp,seconds", *(f"{1000 * at},{took}" for at, took in reversed(STEPS))],
        ["", "time,seconds", "2026-01-05 12:00:01.5,1.5", "2026-01-05 12:00:03.5,2", "2026-01-05 12:00:04,0.5", ""],
    ],
    ids=["json", "json in seconds", "csv", "csv in milliseconds", "csv in any order", "csv without a zone"],
)
def test_the_same_steps_are_read_from_every_form(tmp_path: Path, lines: list[str]) -> None:
    assert read_steps(written(tmp_path, *lines)) == (STEPS, 0)


def test_a_log_tells_the_time_between_two_lines_of_its_first_rank(tmp_path: Path) -> None:
    lines = [
        "[2026-01-05 12:00:00,000] [INFO] [rank 0] loading checkpoint",
        "[2026-01-05 12:00:00,000] [INFO] [rank 0] iteration 10/ 500 | lm loss: 1.0",
        "[2026-01-05 12:00:00,700] [INFO] [rank 1] iteration 20/ 500 | lm loss: 1.0",
        "[2026-01-05 12:00:01,500] [INFO] [rank 0] iteration 20/ 500 | lm loss: 1.0",
        "[2026-01-05 12:00:01,500] [INFO] [rank 0] iteration 20/ 500 | memory: 1.0",
        "[2026-01-05 12:00:02,000] [INFO] [rank 0] saved a checkpoint",
        "[2026-01-05 12:00:03,500] [INFO] [rank 0] iteration 30/ 500 | lm loss: 1.0",
        "iteration 31/ 500 | lm loss: 1.0",
        "[2026-01-05 12:00:04,000] [INFO] [rank 0] iteration 40/ 500 | lm loss: 1.0",
        "[2026-01-05 13:00:00,000] [INFO] [rank 0] iteration 10/ 500 | lm loss: 1.0",
        "[2026-01-05 13:00:02,000] [INFO] [rank 0] iteration 20/ 500 | lm loss: 1.0",
    ]
    after = (SECOND + 3602, 2.0)
    assert read_steps(written(tmp_path, *lines)) == ([*STEPS, after], 0), "a run that begins anew is no long step"
    (tmp_path / "packed.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert read_steps(tmp_path / "packed.gz") == ([*STEPS, after], 0)


def test_times_without_a_zone_are_of_the_one_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "time,seconds", "2026-01-05T20:00:01.5,1.5", "2026-01-05T12:00:03.5Z,2")
    assert read_steps(path, "Asia/Shanghai") == (STEPS[:2], 0)


def test_rows_that_are_no_steps_are_counted(tmp_path: Path) -> None:
    lines = ["time,seconds", f"{SECOND},1", f"{SECOND}", "soon,1", f"{SECOND},-1", f"{SECOND},nan", "1,1", "inf,1"]
    assert read_steps(written(tmp_path, *lines)) == ([(SECOND, 1.0)], 6)


@pytest.mark.parametrize("lines", [[], ["roses are red"], ["time,seconds"], ['{"ts_ms": 1, "step_ms": 1}'], ["step 3"]])
def test_a_file_without_a_step_is_an_error_that_says_what_one_looks_like(tmp_path: Path, lines: list[str]) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(InputError) as caught:
        read_steps(path)
    assert caught.value.message == f"{path} has no step with a time"
    assert "time,seconds" in caught.value.hint


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(["time,seconds", '{"time": 1, "ms": []}', "[" * 99]))))
def test_whatever_a_file_says_it_is_steps_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "steps"
    path.write_text("\n".join(lines), errors="replace")
    try:
        steps, bad = read_steps(path)
    except InputError:
        return
    assert steps == sorted(steps)
    assert all(took >= 0 for _, took in steps)
    assert bad >= 0


def test_a_cell_of_any_length_costs_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(f"time,seconds\n2026-01-01T00:00:00Z,1.5\n{'x' * 200_000},1.5\n2026-01-01T00:00:02Z,1.5\n")
    steps, bad = read_steps(path)
    assert ([seconds for _, seconds in steps], bad) == ([1.5, 1.5], 1)
    path.write_text("x" * 200_000)
    with pytest.raises(InputError):
        read_steps(path)
