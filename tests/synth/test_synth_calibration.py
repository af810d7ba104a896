from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from gpulake.core.errors import InputError
from gpulake.synth import write_trace
from gpulake.synth.calibration import Check, Readback, gap, measure
from gpulake.synth.draws import Curve


@pytest.fixture(scope="module")
def checks(written_in: Path) -> list[Check]:
    return measure(written_in)


def test_every_calibrated_figure_is_within_its_bound(checks: list[Check]) -> None:
    assert [check for check in checks if not check.passed] == []


def test_every_promised_figure_is_measured(checks: list[Check]) -> None:
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    promised = {
        "Fig 5b wait": 5,
        "Fig 5d runtime": 5,
        "Fig 5c tasks on": 5,
        "Fig 5c plan_gpu": 5,
        "plan above usage": 3,
    }
    promised |= {"instances ": 5 + 23, "Fig 8b": 3, "Fig 6": 3, "Fig 2b": 23, "(tail)": 3, "Fig 3c": 1, "held": 1}
    assert {part: sum(part in name for name in names) for part in promised} == promised


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_another_seed_at_another_size_is_as_close(tmp_path: Path, seed: int) -> None:
    write_trace(tmp_path, jobs=20_000, seed=seed)
    assert [check for check in measure(tmp_path) if not check.passed] == []


def test_half_of_the_tasks_hardly_use_their_gpu(checks: list[Check]) -> None:
    used = next(check for check in checks if check.name.startswith("Fig 6b"))
    assert used.measured < 2.5


@pytest.mark.slow
def test_a_trace_that_is_off_is_found_out(written_in: Path, tmp_path: Path) -> None:
    shutil.copytree(written_in, tmp_path / "off")
    tasks = tmp_path / "off" / "pai_task_table.csv"
    tasks.write_text(tasks.read_text().replace(",T4\n", ",MISC\n"))
    failed = {check.name for check in measure(tmp_path / "off") if not check.passed}
    assert {
        "Fig 5c tasks on T4, %",
        "Fig 5c tasks on MISC, %",
        "Fig 5b wait on T4, s",
        "Fig 5b wait on MISC, s",
    } <= failed


def test_measuring_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pai_job_table in") as caught:
        measure(tmp_path)
    assert "gpulake synth --out" in caught.value.hint


def test_the_gap_of_a_shifted_sample_is_the_shift() -> None:
    even = Curve.through([10, 90], [np.exp(0.1), np.exp(0.9)], least=1.0, most=np.e)
    places = (np.arange(10_000) + 0.5) / 10_000
    assert gap(even.value(places), even) == pytest.approx(0.0, abs=0.001)
    assert gap(even.value(np.clip(places + 0.2, 0, 1)), even) == pytest.approx(0.2, abs=0.001)


def test_instances_run_as_long_as_the_real_ones_and_those_of_gangs_longer(checks: list[Check]) -> None:
    """Figures of tasks say nothing of it: four of five instances belong to gangs."""
    found = {check.name: check for check in checks if "(tail)" in check.name}
    assert found["run of an instance (tail), s"].measured == pytest.approx(1007, rel=0.15)
    assert found["run of an instance in a gang (tail), s"].measured == pytest.approx(1087, rel=0.15)
    assert found["mean run of an instance (tail), s"].measured == pytest.approx(5255, rel=0.15)


def test_recurring_jobs_take_similar_time(written: Readback) -> None:
    """Half of the runs of a group differ by a few percent from those before: duration can be predicted from them."""
    start, end = (written.numbers("pai_job_table", name) for name in ("start_time", "end_time"))
    is_over = written.texts("pai_job_table", "status") == "Terminated"
    lasted = np.log(np.maximum(end - start, 1))[is_over]
    _, group = np.unique(written.texts("pai_group_tag_table", "group")[is_over], return_inverse=True)
    order = np.lexsort((start[is_over], group))
    is_next = np.diff(group[order]) == 0
    change = np.abs(np.diff(lasted[order]))[is_next]
    assert np.median(change) < 0.15
    assert np.std(lasted) > 2


def test_a_few_users_submit_most(written: Readback) -> None:
    _, jobs = np.unique(written.texts("pai_job_table", "user"), return_counts=True)
    jobs = np.sort(jobs)[::-1]
    assert jobs[: len(jobs) // 20].sum() / jobs.sum() > 0.5
    assert 0.15 < jobs[0] / jobs.sum() < 0.35


def test_tasks_have_the_real_names(written: Readback) -> None:
    names, rows = np.unique(written.texts("pai_instance_table", "task_name"), return_counts=True)
    share = dict(zip(names, rows / rows.sum() * 100, strict=True))
    assert len(share) == 14
    real = {"worker": 66.5, "tensorflow": 11.6, "ps": 9.6, "PyTorchWorker": 6.4, "DecoderWorker": 4.5}
    assert {name: share[name] for name in real} == pytest.approx(real, abs=5)


def test_machines_are_as_busy_as_published_after_the_first_three_days(written: Readback) -> None:
    """Days of the published zone (-06), in which the monitoring begins at midnight."""
    day = (written.numbers("pai_machine_metric", "end_time") - 6 * 3600) // 86_400
    used = written.numbers("pai_machine_metric", "machine_gpu")
    daily = np.array([used[day == number].mean() for number in np.unique(day)])
    assert len(daily) == 49
    assert daily[:3].max() < 60
    assert 110 < np.median(daily[3:]) < 160
    assert daily[3:].min() > 75


def test_tasks_start_a_few_seconds_after_their_job_is_submitted(written: Readback) -> None:
    job = written.places("job_name", "pai_task_table", "pai_job_table")
    wait = written.numbers("pai_task_table", "start_time") - written.numbers("pai_job_table", "start_time")[job]
    known = wait[~np.isnan(wait)]
    assert 1 <= np.median(known) <= 10
    assert known.max() > 30
