"""Methods are tuned on one half of the series, within a bound on false alarms, and reported on the other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench.scoring.baselines import WINDOW, matrix_profile
from bench.scoring.halves import main, point, tuned
from bench.scoring.sets import LabelledSeries

from gpulake.detect.series import Floats, Series

MINUTE_MS = 60_000


def case(values: Floats, labelled: slice, scored_from: int = 0, has_split: bool = False) -> LabelledSeries:
    is_labelled = np.zeros(len(values), dtype=np.bool_)
    is_labelled[labelled] = True
    times = np.arange(len(values), dtype=np.int64) * MINUTE_MS
    metrics = tuple(f"m{place}" for place in range(values.shape[1]))
    return LabelledSeries("set", Series("a", metrics, times, values, MINUTE_MS), is_labelled, scored_from, has_split)


def test_a_threshold_that_flags_everything_is_not_taken() -> None:
    flat = case(np.zeros((2880, 1)), slice(1000, 1010))
    best, reported = tuned([flat], [np.ones(2880)], [flat], [np.ones(2880)])
    assert (best.found, reported.found, reported.false_alarms_a_day) == (0, 0, 0.0)
    everything = point([flat], [np.ones(2880, dtype=np.bool_)])
    assert (everything.found, everything.false_alarms_a_day, everything.is_quiet) == (1, 0.0, False)


def test_the_threshold_of_the_first_half_is_used_on_the_second() -> None:
    one = case(np.zeros((2880, 1)), slice(1000, 1010))
    first, second = np.zeros(2880), np.zeros(2880)
    first[1005], second[1005], second[2000] = 5.0, 4.0, 6.0
    best, reported = tuned([one], [first], [one], [second])
    assert (best.found, best.false_alarms_a_day) == (1, 0.0)
    assert (reported.found, reported.false_alarms_a_day) == (0, 0.5)


@pytest.mark.parametrize("has_split", [True, False])
def test_the_profile_is_the_distance_to_the_nearest_earlier_window(has_split: bool) -> None:
    values = np.random.default_rng(0).normal(size=(400, 1))
    values[300:345] = values[100:145]  # a repetition
    scores = matrix_profile(case(values, slice(350, 360), 200, has_split))
    windows = np.lib.stride_tricks.sliding_window_view(values[:, 0], WINDOW)
    here = windows[380 - WINDOW + 1]
    # All rows of this short series are asked at once, so that windows before the first of them are compared.
    earlier = windows[: 200 - WINDOW + 1] if has_split else windows[: 200 - 2 * WINDOW + 1]
    nearest = max(np.corrcoef(here, each)[0, 1] for each in earlier)
    assert scores[180] == pytest.approx(np.sqrt(1 - nearest), abs=1e-3)
    assert scores[340 - 200] < 0.01


def test_halves_are_printed_for_every_method_and_the_last_line_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyarrow import parquet, table

    random = np.random.default_rng(1)
    for name in ("a", "b"):
        label, values = np.zeros(3000, dtype=np.int8), random.normal(size=3000)
        label[2500:2540], values[2500:2540] = 1, 9.0
        parquet.write_table(table({"m": values, "label": label}), tmp_path / f"{name}.parquet")
    assert main(["--data", str(tmp_path), "--method", "z_score", "--method", "matrix_profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["ours", "z_score", "matrix_profile"]
    (own,) = json.loads(lines[-1]).values()
    assert own["ours"]["reported"]["found"] == 1
    assert own["z_score"]["tuned"]["found_ratio"] == 1.0
