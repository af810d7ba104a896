"""Real peers that were not alike: a hot GPU among eight, slow workers in their gangs."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from detect.scenes import BEGIN, SECOND, lake_of, sample
from gpulake.detect.alarms import alarms_of
from gpulake.detect.detectors.straggler import Straggler
from gpulake.detect.series import Series
from gpulake.detect.watches import WATCHES
from gpulake.detect.watchlist import rescore, run_watches


def peers(path: Path, time: str, peer: str, value: str, interval_ms: int) -> Series:
    """A metric a peer; times are counted."""
    moments: dict[str, dict[int, float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            moments.setdefault(row[time], {})[int(row[peer])] = float(row[value])
    names = sorted({name for moment in moments.values() for name in moment})
    values = np.array([[moment.get(name, np.nan) for name in names] for moment in moments.values()])
    times = np.arange(len(values), dtype=np.int64) * interval_ms
    return Series(path.stem, tuple(map(str, names)), times, values, interval_ms)


def stragglers(series: Series) -> set[str]:
    return {name for alarm in alarms_of(series, Straggler().score(series)) for name in alarm.carriers}


@pytest.mark.real
def test_the_hot_gpu_is_found_and_no_other(real_data: Path) -> None:
    files = sorted((real_data / "nanogpt_8gpu_telemetry").glob("*.csv"))
    found = [stragglers(peers(path, "timestamp", "gpu_index", "temperature_C", 280)) for path in files]
    assert found == [{"1"}] * 4


@pytest.mark.real
@pytest.mark.parametrize(
    ("job", "slow"), [("1", {"0", "1", "2"}), ("2", set()), ("3", {"0", "1"}), ("4", {"0", "5", "6", "7", "8"})]
)
def test_slow_workers_are_found(real_data: Path, job: str, slow: set[str]) -> None:
    path = real_data / "pai" / "mini-batch-time" / "data" / f"job_{job}_norm.csv"
    assert stragglers(peers(path, "time", "worker", "batch_time_norm", 1_000)) == slow


def gang(seed: int, workers: int = 16, steps: int = 200) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(1.0, 0.05, size=(steps, workers))


def as_series(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Series:
    times = np.arange(len(values), dtype=np.int64) * 1_000
    return Series("gang", tuple(map(str, range(values.shape[1]))), times, values, 1_000)


def test_one_worker_of_many_that_becomes_slow_is_named() -> None:
    values = gang(1)
    values[100:, 7] *= 1.3
    (alarm,) = alarms_of(as_series(values), Straggler().score(as_series(values)))
    assert alarm.carriers == ("7",)
    assert 100_000 <= alarm.begin_ms <= 130_000


def test_workers_that_are_alike_are_left_alone() -> None:
    assert not Straggler().score(as_series(gang(2))).is_flagged.any()


def test_a_slow_side_may_be_the_low_one() -> None:
    values = gang(3)
    values[100:, 2] *= 0.6
    scores = Straggler(side="low").score(as_series(values))
    assert {name for alarm in alarms_of(as_series(values), scores) for name in alarm.carriers} == {"2"}


def test_a_gpu_that_is_idle_by_the_time_it_is_flagged_gives_no_finding() -> None:
    """Its trailing level is still hot, but there is no temperature to report."""
    values = 50 + np.random.default_rng(0).random((120, 8))
    values[:30, 3] = 90.0
    values[30:, 3] = np.nan
    series = Series("node", tuple("01234567"), np.arange(120, dtype=np.int64) * 30_000, values, 30_000)
    watch = WATCHES.get("hot_gpus")()
    scores = watch.detector.score(series)
    (alarm,) = alarms_of(series, scores)
    assert alarm.carriers == ("3",)
    assert watch.describe(series, scores, alarm) is None


def test_of_two_jobs_that_share_a_node_each_finding_is_explained_by_its_own_gpus() -> None:
    drawn = iter(np.random.default_rng(4).normal(1.0, 0.005, 8 * 900).tolist())
    slow_since = {1: 400, 6: 120}
    rows = [
        sample("n", second, gpu)
        | {"owner_kind": "slurm", "owner_id": "1" if gpu < 4 else "2", "busy_ratio": 1.0}
        | {"sm_clock_hertz": next(drawn) * (1.2e9 if second >= slow_since.get(gpu, 900) else 1.9e9)}
        for second in range(900)
        for gpu in range(8)
    ]
    explained = {}
    with lake_of({"silver_gpu_samples": rows}) as read:
        for found in run_watches(read):
            known = rescore(read, asdict(found))
            assert known is not None
            explained[found.subject] = known[0].metrics
    assert explained == {"n GPU 1": ("0", "1", "2", "3"), "n GPU 6": ("4", "5", "6", "7")}


@pytest.mark.parametrize(("jobs", "found"), [((1, 2), set()), ((1, 1), {"n GPU 6"})])
def test_where_samples_name_no_job_gpus_of_several_jobs_are_not_compared(
    jobs: tuple[int, int], found: set[str]
) -> None:
    drawn = iter(np.random.default_rng(4).normal(1.0, 0.005, 8 * 900).tolist())
    rows = [
        sample("n", second, gpu)
        | {"machine_key": 7, "owner_kind": "unattributed", "busy_ratio": 1.0}
        | {"power_watts": next(drawn) * (300 if gpu == 6 and second >= 120 else 650)}
        for second in range(900)
        for gpu in range(8)
    ]
    times = {"held_from": BEGIN, "held_until": BEGIN + 900 * SECOND}
    held = [{"machine_key": 7, "job_key": job, "gpus": 4.0} | times for job in jobs]
    with lake_of({"silver_gpu_samples": rows, "silver_holdings": held}) as read:
        assert {finding.subject for finding in run_watches(read) if finding.kind == "weak_gpu"} == found
