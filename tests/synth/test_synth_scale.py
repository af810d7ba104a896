from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpulake.core.errors import UsageError
from gpulake.synth import TraceSummary, write_trace
from gpulake.synth.facts import TYPES, scaled
from gpulake.synth.placement import inventory
from gpulake.synth.trace import make

FULL = 1_055_501


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("is_tar", [False, True])
def test_the_same_jobs_and_seed_give_the_same_bytes(tmp_path: Path, is_tar: bool) -> None:
    write_trace(tmp_path / "one", jobs=2_000, seed=5, is_tar=is_tar)
    write_trace(tmp_path / "two", jobs=2_000, seed=5, is_tar=is_tar)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_another_seed_gives_another_trace(tmp_path: Path) -> None:
    write_trace(tmp_path / "one", jobs=2_000, seed=5)
    write_trace(tmp_path / "two", jobs=2_000, seed=6)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    for name in one:
        if name.startswith("pai_") and name.endswith(".csv"):
            assert not set(one[name].splitlines()) & set(two[name].splitlines()), name


def test_the_published_scale_has_the_published_counts() -> None:
    counts = [scaled(name, FULL) for name in ("jobs", "tasks", "instances", "machine_metrics", "gpu_tasks")]
    assert counts == [1_055_501, 1_260_920, 7_522_002, 2_009_423, 1_037_085]


def test_the_published_scale_has_the_published_machines() -> None:
    machines = inventory(FULL)
    columns = (machines.cap_cpu, machines.cap_mem, machines.cap_gpu)
    rows = Counter(
        zip([TYPES[code] for code in machines.gpu_type], *(column.tolist() for column in columns), strict=True)
    )
    assert rows == {
        ("CPU", 96, 512, 0): 83,
        ("MISC", 96, 512, 8): 280,
        ("P100", 64, 512, 2): 798,
        ("T4", 96, 512, 2): 497,
        ("V100", 96, 384, 8): 45,
        ("V100", 96, 512, 8): 59,
        ("V100M32", 96, 384, 8): 135,
    }
    assert len(machines) == 1_897
    assert machines.cap_gpu.sum() == 6_742


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1_000, 1_234, 5_000, 30_001])
def test_a_smaller_trace_is_proportional(tmp_path: Path, jobs: int) -> None:
    rows = write_trace(tmp_path, jobs=jobs, seed=2).rows
    assert rows["pai_job_table"] == rows["pai_group_tag_table"] == jobs
    assert rows["pai_task_table"] == round(1_260_920 * jobs / FULL)
    assert rows["pai_instance_table"] == round(7_522_002 * jobs / FULL)
    assert rows["pai_machine_metric"] == round(2_009_423 * jobs / FULL)
    for name, count in rows.items():
        assert len((tmp_path / f"{name}.csv").read_bytes().splitlines()) == count


def test_a_small_trace_has_a_machine_of_every_type() -> None:
    assert set(inventory(1_000).gpu_type) == set(range(len(TYPES)))


def silent(what: str, share: float) -> None:
    assert what
    assert 0 <= share <= 1


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [5_000, 30_000])
def test_machines_hold_more_than_they_have_for_less_than_two_hundredths_of_the_time(jobs: int) -> None:
    trace = make(jobs, 4, has_incidents=True, report=silent)
    rows, tasks, machines = trace.rows, trace.population.tasks, trace.population.machines
    holds = np.flatnonzero((rows.machine >= 0) & tasks.has_gpu[rows.task])
    over = total = 0
    for machine in np.flatnonzero(machines.cap_gpu > 0):
        here = holds[rows.machine[holds] == machine]
        plan = tasks.plan_gpu[rows.task[here]]
        second = np.concatenate([rows.started_at[here], rows.ended_at[here]])
        change = np.concatenate([plan, -plan])
        order = np.lexsort((change, second))
        held = np.cumsum(change[order])[:-1]
        over += int(np.diff(second[order])[held > machines.cap_gpu[machine] * 100].sum())
        total += 51 * 86_400
    assert over / total < 0.02


@pytest.mark.parametrize("jobs", [-1, 0, 999, FULL + 1])
def test_too_few_or_too_many_jobs_are_refused(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(UsageError, match=f"{jobs:,} jobs") as caught:
        write_trace(tmp_path, jobs=jobs)
    assert caught.value.hint == "choose from 1,000 to 1,055,501"
    assert list(tmp_path.iterdir()) == []


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="seed -1"):
        write_trace(tmp_path, jobs=1_000, seed=-1)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        write_trace(tmp_path / "taken", jobs=1_000)
    assert (tmp_path / "taken").read_text() == "mine"


def test_other_files_of_the_folder_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pai_job_table.csv").write_text("old")
    summary = write_trace(tmp_path, jobs=1_000)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert len((tmp_path / "pai_job_table.csv").read_text().splitlines()) == 1_000
    assert {path.name for path in summary.files} | {"notes.txt"} == {path.name for path in tmp_path.iterdir()}


def test_a_run_that_stops_half_way_leaves_the_old_files_and_no_new_ones(tmp_path: Path) -> None:
    (tmp_path / "pai_machine_spec.csv").write_text("old")

    def stop(what: str, share: float) -> None:
        if what.startswith("wrote") and share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(tmp_path, jobs=1_000, report=stop)
    assert contents(tmp_path) == {"pai_machine_spec.csv": b"old"}


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    steps: list[tuple[str, float]] = []
    summary = write_trace(tmp_path, jobs=1_000, report=lambda what, share: steps.append((what, share)))
    shares = [share for _, share in steps]
    assert isinstance(summary, TraceSummary)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
