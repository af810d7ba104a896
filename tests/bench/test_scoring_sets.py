"""Labelled series are read as they are laid out, whichever of them there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bench.scoring.report import bars, measure
from bench.scoring.sets import read_cases
from pyarrow import parquet

from gpulake.core.errors import InputError

METHODS = ["ours", "isolation_forest", "z_score", "random"]


def write_machine(folder: Path, name: str, seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    values = random.normal(size=(3000, 3)).astype(np.float32)
    label = np.zeros(3000, dtype=np.int8)
    label[2500:2540] = 1
    values[2500:2540] += 6
    columns = {
        "machine": [name] * 3000,
        "t": np.concatenate([np.arange(2000), np.arange(1000)]),
        **{f"m{place:02}": values[:, place] for place in range(3)},
        "split": ["train"] * 2000 + ["test"] * 1000,
        "label": label,
    }
    parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


def write_nab(folder: Path) -> None:
    (folder / "data" / "kind").mkdir(parents=True)
    lines = ["timestamp,value"]
    for place in range(1000):
        moment = f"2026-01-0{1 + place // 288} {place % 288 // 12:02}:{place % 12 * 5:02}:00"
        lines.append(f"{moment},{20 if 700 <= place < 720 else place % 7}")
    (folder / "data" / "kind" / "one.csv").write_text("\n".join(lines) + "\n")
    windows = {"kind/one.csv": [["2026-01-03 10:00:00.000000", "2026-01-03 14:00:00.000000"]], "kind/gone.csv": []}
    (folder / "windows.json").write_text(json.dumps(windows))


def test_a_machine_is_read_with_its_past(tmp_path: Path) -> None:
    write_machine(tmp_path / "smd", "machine-9-9")
    (case,) = read_cases(tmp_path, 1_000)
    assert (case.collection, case.scored_from, case.has_split, case.series.interval_ms) == ("smd", 2000, True, 60_000)
    assert case.series.metrics == ("m00", "m01", "m02")
    assert case.is_labelled.sum() == 40


def test_a_set_nobody_knows_is_read_like_the_others(tmp_path: Path) -> None:
    write_machine(tmp_path / "mine", "a")
    (case,) = read_cases(tmp_path / "mine", 1_000)
    assert (case.collection, case.series.interval_ms) == ("mine", 1_000)


def test_windows_become_labels_and_the_first_part_is_not_scored(tmp_path: Path) -> None:
    write_nab(tmp_path / "nab")
    (case,) = read_cases(tmp_path, 1_000)
    assert (case.scored_from, case.has_split, case.series.interval_ms) == (150, False, 300_000)
    assert np.flatnonzero(case.is_labelled)[[0, -1]].tolist() == [696, 744]


@pytest.mark.slow
def test_figures_are_printed_by_set_and_method(tmp_path: Path) -> None:
    write_machine(tmp_path / "smd", "a")
    write_machine(tmp_path / "smd", "b", seed=1)
    write_nab(tmp_path / "nab")
    found = measure(read_cases(tmp_path, 1_000))
    assert {name: list(own) for name, own in found.items()} == dict.fromkeys(("nab", "smd", "overall"), METHODS)
    ours, random = found["smd"]["ours"], found["smd"]["random"]
    assert ours["vus_pr"] is not None
    assert random["vus_pr"] is not None
    assert ours["vus_pr"] > 0.6 > 0.2 > random["vus_pr"]
    assert ours["events_found"] == 2
    assert set(bars(found)["vus_pr_over_forest"]) == {"nab", "smd"}


def test_a_folder_without_series_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no labelled series"):
        list(read_cases(tmp_path, 1_000))


def test_the_last_line_is_json(tmp_path: Path) -> None:
    write_nab(tmp_path / "nab")
    command = [sys.executable, "-m", "bench.scoring.detection", "--data", str(tmp_path)]
    reported = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    document = json.loads(reported.stdout.splitlines()[-1])
    assert list(document) == ["sets", "bars"]
    assert list(document["sets"]["nab"]) == METHODS


@pytest.mark.real
@pytest.mark.slow
def test_the_default_is_ahead_of_the_references_forest_on_every_set(real_data: Path) -> None:
    # A third of each set; scripts/score measures them whole.
    every = sorted(read_cases(real_data, 60_000), key=lambda case: case.collection)
    found = measure(every[::3])
    reported = bars(found)
    assert (reported["is_ahead_on_each"], reported["is_ahead_on_average"], reported["is_quiet"]) == (True, True, True)
    for own in found.values():
        chance = own["random"]["vus_pr"]
        assert chance is not None
        assert chance < 0.16
