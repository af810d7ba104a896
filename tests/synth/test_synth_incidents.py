from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulake.synth import write_trace
from gpulake.synth.clock import ROLLOUT_TO
from gpulake.synth.readback import Readback, opened, places

DAY = 86_400
KINDS = ["runaway_user", "dead_rack", "hot_weekend", "failure_burst", "slow_machine"]
INSTANCES = "pai_instance_table"


@dataclass(frozen=True)
class Truth:
    """One entry of truth.json."""

    first: int
    last: int
    ids: list[str]
    magnitude: float


@pytest.fixture(scope="module")
def usual_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of the default size and seed: the one a newcomer sees."""
    directory = tmp_path_factory.mktemp("usual")
    write_trace(directory)
    return directory


@pytest.fixture(scope="module")
def usual(usual_in: Path) -> Readback:
    return opened(usual_in)


@pytest.fixture(params=["usual", "written"])
def trace(request: pytest.FixtureRequest) -> Readback:
    found: Readback = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def entries(request: pytest.FixtureRequest, trace: Readback) -> list[dict[str, Any]]:  # noqa: ARG001 - which trace
    name = request.node.callspec.params["trace"]
    directory: Path = request.getfixturevalue(f"{name}_in")
    found: list[dict[str, Any]] = json.loads((directory / "truth.json").read_text())
    return found


def truth(entries: list[dict[str, Any]], kind: str) -> Truth:
    (found,) = [entry for entry in entries if entry["kind"] == kind]
    return Truth(found["first_second"], found["last_second"], found["subject_ids"], found["magnitude"])


def test_the_truth_is_told_in_seconds_and_in_local_time(entries: list[dict[str, Any]]) -> None:
    assert [entry["kind"] for entry in entries] == KINDS
    for entry in entries:
        local = np.datetime64(entry["first_local"].removesuffix("+08:00"))
        assert int((local - np.datetime64("1970-01-01T08:00:00")) / np.timedelta64(1, "s")) == entry["first_second"]
        assert entry["expect"]
        assert entry["magnitude"] > 0


def test_incidents_fall_on_days_of_their_own_after_the_roll_out(entries: list[dict[str, Any]]) -> None:
    spans = [(entry["first_second"], entry["last_second"]) for entry in entries]
    assert spans[0][0] > ROLLOUT_TO + 3 * DAY
    assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_the_hot_week_end_is_far_above_the_others(trace: Readback, entries: list[dict[str, Any]]) -> None:
    hot = truth(entries, "hot_weekend")
    start, end = (trace.numbers("pai_machine_metric", name) for name in ("start_time", "end_time"))
    used = trace.numbers("pai_machine_metric", "machine_gpu")

    def mean(first: float) -> float:
        is_within = (start >= first) & (end < first + 2 * DAY)
        return float(used[is_within].mean())

    others = [mean(hot.first + week * 7 * DAY) for week in (-2, -1, 1, 2)]
    assert mean(hot.first) > 1.5 * max(others)


def test_the_runaway_user_holds_whole_gpus_and_uses_none(trace: Readback, entries: list[dict[str, Any]]) -> None:
    found = truth(entries, "runaway_user")
    jobs = trace.tables["pai_job_table"]
    submitted, user = trace.numbers("pai_job_table", "start_time"), trace.texts("pai_job_table", "user")
    is_theirs = (user == found.ids[0]) & (submitted >= found.first) & (submitted < found.last)
    assert is_theirs.sum() >= found.magnitude >= 200
    before = (user == found.ids[0]) & (submitted < found.first)
    assert is_theirs.sum() > 10 * max(before.sum(), 1)
    names = jobs["job_name"].filter(is_theirs)
    sensor = places(trace.tables["pai_sensor_table"]["job_name"], names) >= 0
    assert sensor.sum() >= found.magnitude
    assert np.median(trace.numbers("pai_sensor_table", "gpu_wrk_util")[sensor]) < 0.1
    task = places(trace.tables["pai_task_table"]["job_name"], names) >= 0
    assert np.median(trace.numbers("pai_task_table", "plan_gpu")[task]) == 100


def test_the_dead_rack_is_silent_for_a_day(trace: Readback, entries: list[dict[str, Any]]) -> None:
    found = truth(entries, "dead_rack")
    is_there = np.isin(trace.texts(INSTANCES, "machine"), found.ids)
    start, end = trace.numbers(INSTANCES, "start_time")[is_there], trace.numbers(INSTANCES, "end_time")[is_there]
    started = [((start >= found.first + day * DAY) & (start < found.last + day * DAY)).sum() for day in (-1, 0, 1)]
    assert started[1] == 0
    assert min(started[0], started[2]) > 5
    assert not ((end > found.first) & (end < found.last)).any()
    status = trace.texts(INSTANCES, "status")
    ended = trace.numbers(INSTANCES, "end_time") == found.first
    assert ended.sum() >= found.magnitude >= 1
    assert set(status[ended & is_there]) <= {"Failed", "Interrupted"}
    assert (status[ended & is_there] == "Failed").sum() >= 5
    metric = np.isin(trace.texts("pai_machine_metric", "machine"), found.ids)
    seen = trace.numbers("pai_machine_metric", "end_time")[metric]
    assert not ((seen > found.first) & (seen < found.last)).any()


def test_most_jobs_of_the_burst_fail(trace: Readback, entries: list[dict[str, Any]]) -> None:
    found = truth(entries, "failure_burst")
    submitted = trace.numbers("pai_job_table", "start_time")
    is_failed = trace.texts("pai_job_table", "status") == "Failed"
    is_within = (submitted >= found.first) & (submitted < found.last)
    assert is_within.sum() > 50
    assert is_failed[is_within].mean() > 0.7
    assert is_failed[~is_within].mean() < 0.25
    assert set(found.ids) <= set(trace.texts("pai_job_table", "job_name")[is_within & is_failed])


def test_the_slow_machine_takes_its_time(trace: Readback, entries: list[dict[str, Any]]) -> None:
    found = truth(entries, "slow_machine")
    start, end = trace.numbers(INSTANCES, "start_time"), trace.numbers(INSTANCES, "end_time")
    plan = trace.numbers("pai_task_table", "plan_gpu")[trace.task]
    kind = trace.texts("pai_task_table", "gpu_type")[trace.task]
    is_timed = (trace.texts(INSTANCES, "status") == "Terminated") & (plan > 0) & (kind == "T4")
    is_within = is_timed & (start >= found.first) & (start < found.last)
    is_there = trace.texts(INSTANCES, "machine") == found.ids[0]
    # Instances of a group take similar time, so each is compared with the others of its group on other machines.
    _, group = np.unique(trace.texts("pai_group_tag_table", "group"), return_inverse=True)
    job = trace.places("job_name", INSTANCES, "pai_job_table")
    log = np.log(np.maximum(end - start, 1.0))
    elsewhere = is_timed & ~is_there & ~(is_within & np.isin(job, job[is_within & is_there]))
    count = np.bincount(group[job[elsewhere]], minlength=group.max() + 1)
    mean = np.bincount(group[job[elsewhere]], weights=log[elsewhere], minlength=len(count)) / np.maximum(count, 1)
    compared = np.flatnonzero(is_within & is_there & (count[group[job]] >= 5))
    compared = compared[np.unique(job[compared], return_index=True)[1]]
    assert len(compared) > 20
    ratio = np.exp(np.median(log[compared] - mean[group[job[compared]]]))
    assert 1.6 < ratio < 4.0


def test_a_trace_without_incidents_has_none(tmp_path: Path) -> None:
    summary = write_trace(tmp_path, jobs=5_000, has_incidents=False)
    assert summary.incidents == ()
    assert json.loads((tmp_path / "truth.json").read_text()) == []


def test_a_tiny_trace_leaves_out_what_its_few_machines_cannot_show(tmp_path: Path) -> None:
    kinds = {incident.kind for incident in write_trace(tmp_path, jobs=1_000).incidents}
    assert kinds == set(KINDS) - {"dead_rack", "slow_machine"}
