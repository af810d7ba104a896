"""From a machine to an answer: a run that was recorded on a real GPU, parsed, landed, built, and told in gold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.recorded import unpack_recording
from conftest import rows_of
from gpulake.collect.cctf.parse import parse
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = unpack_recording(tmp_path_factory.mktemp("recorded"))
    parse(run)
    return run


@pytest.fixture(scope="module")
def recorded_lake(run: Path) -> Lake:
    flow = Flow(Config(lake=run.parent / "lake", threads=1))
    result = flow.land([run / "cctf"])
    landings, unknown = result.landings, result.unknown
    assert unknown == ()
    assert sum(landing.rows_quarantined for landing in landings) == 0
    flow.build()
    return flow.lake


def test_the_energy_of_the_job_and_of_nobody_is_what_the_counter_says(recorded_lake: Lake, run: Path) -> None:
    samples = [json.loads(line) for line in (run / "cctf" / "gpu_metrics.jsonl").read_text().splitlines()]
    counted = samples[-1]["energy_joules_total"] - samples[0]["energy_joules_total"]
    (job,) = (json.loads(line) for line in (run / "cctf" / "invocations.jsonl").read_text().splitlines())
    owners = rows_of(
        recorded_lake, "SELECT owner_kind, owner_id, energy_joules FROM gold_job_energy ORDER BY owner_kind"
    )
    assert [(row["owner_kind"], row["owner_id"]) for row in owners] == [
        ("nobody", "nobody"),
        ("trace", job["trace_id"]),
        ("unattributed", "unattributed"),  # the driver's mean still counts as busy when the process has ended
    ]
    assert sum(float(str(row["energy_joules"])) for row in owners) == pytest.approx(counted)
    assert float(str(owners[1]["energy_joules"])) > 0.9 * counted
    assert float(str(owners[2]["energy_joules"])) < 0.02 * counted


def test_hours_held_and_idle_are_those_in_which_the_job_starved(recorded_lake: Lake) -> None:
    (row,) = rows_of(recorded_lake, "FROM gold_idle_gpus_daily")
    names = ("observed", "free", "held_idle", "held_busy", "held_empty")
    hours = {name: float(str(row[f"{name}_hours"])) for name in names}
    assert hours["free"] + hours["held_idle"] + hours["held_busy"] == pytest.approx(hours["observed"])
    # For 13 seconds it loaded, with the GPU given to it and no process there; then of each 20 seconds it slept five.
    assert hours["held_empty"] * 3600 == pytest.approx(13.3, abs=0.5)
    assert hours["held_idle"] * 3600 == pytest.approx(44, abs=1)
    assert hours["held_busy"] * 3600 == pytest.approx(82, abs=1)


def test_the_board_was_held_back_by_its_power_limit_and_by_nothing_else(recorded_lake: Lake) -> None:
    (row,) = rows_of(recorded_lake, "FROM gold_throttled_gpus_daily")
    assert row["thermal_hours"] == row["hardware_hours"] == 0
    assert row["power_hours"] == row["throttled_hours"]
    assert 0.2 < float(str(row["throttled_ratio"])) < 0.6


def test_nothing_ran_hot_and_nothing_failed(recorded_lake: Lake) -> None:
    (hot,) = rows_of(recorded_lake, "FROM gold_hot_gpus_daily")
    assert (hot["hot_hours"], hot["threshold_celsius"], hot["is_own_threshold"]) == (0, 89, True)
    (errors,) = rows_of(recorded_lake, "FROM gold_gpu_errors_daily")
    assert (errors["errors"], errors["is_spike"]) == (0, False)
