from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulake.core.errors import UsageError
from gpulake.synth import write_trace
from gpulake.synth.attempts import Attempts
from gpulake.synth.calibration import Readback, opened, places
from gpulake.synth.clock import FIRST_SECOND, ROLLOUT_TO
from gpulake.synth.facts import TERMINATED
from gpulake.synth.incidents import planned, with_rack
from gpulake.synth.placement import Closure, inventory

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


def test_the_truth_is_reported_in_seconds_and_in_local_time(entries: list[dict[str, Any]]) -> None:
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
    assert min(started[0], started[2]) > 0
    assert not ((end > found.first) & (end < found.last)).any()
    status = trace.texts(INSTANCES, "status")
    ended = trace.numbers(INSTANCES, "end_time") == found.first
    assert ended.sum() >= found.magnitude >= 1
    assert set(status[ended & is_there]) <= {"Failed", "Interrupted"}
    assert (status[ended & is_there] == "Failed").sum() >= 1
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


STRENGTHS = (0.25, 0.5, 1.0)


@pytest.fixture(scope="module")
def by_strength(tmp_path_factory: pytest.TempPathFactory) -> dict[float, dict[str, Any]]:
    """What a trace injects of each kind, at each strength."""
    found = {}
    for strength in STRENGTHS:
        directory = tmp_path_factory.mktemp("strength")
        write_trace(directory, jobs=8_000, seed=3, incident_strength=strength)
        found[strength] = {entry["kind"]: entry for entry in json.loads((directory / "truth.json").read_text())}
    return found


def test_the_truth_carries_the_strength(by_strength: dict[float, dict[str, Any]]) -> None:
    for strength, entries in by_strength.items():
        assert {kind: entry["strength"] for kind, entry in entries.items()} == dict.fromkeys(KINDS, strength)


def test_the_weaker_an_incident_the_less_it_adds(by_strength: dict[float, dict[str, Any]]) -> None:
    magnitudes = {kind: [by_strength[strength][kind]["magnitude"] for strength in STRENGTHS] for kind in KINDS}
    assert magnitudes["slow_machine"] == pytest.approx([1.375, 1.75, 2.5])
    assert magnitudes["hot_weekend"] == pytest.approx([1.3, 1.6, 2.2])
    assert magnitudes["failure_burst"] == pytest.approx([0.2125, 0.425, 0.85])
    assert magnitudes["runaway_user"] == [20, 40, 80]
    racks = [by_strength[strength]["dead_rack"] for strength in STRENGTHS]
    assert [rack["last_second"] - rack["first_second"] for rack in racks] == [DAY // 4, DAY // 2, DAY]
    failed = [len(by_strength[strength]["failure_burst"]["subject_ids"]) for strength in STRENGTHS]
    assert failed[0] < failed[1] < failed[2]


@pytest.mark.slow
def test_what_a_rack_or_a_burst_adds_is_in_the_records_of_a_faint_one(tmp_path: Path) -> None:
    write_trace(tmp_path, jobs=8_000, seed=3, incident_strength=0.5)
    faint, entries = opened(tmp_path), json.loads((tmp_path / "truth.json").read_text())
    rack, burst = truth(entries, "dead_rack"), truth(entries, "failure_burst")
    is_there = np.isin(faint.texts(INSTANCES, "machine"), rack.ids)
    start = faint.numbers(INSTANCES, "start_time")[is_there]
    assert not ((start >= rack.first) & (start < rack.last)).any()
    submitted = faint.numbers("pai_job_table", "start_time")
    is_within = (submitted >= burst.first) & (submitted < burst.last)
    is_failed = faint.texts("pai_job_table", "status") == "Failed"
    assert is_failed[~is_within].mean() < is_failed[is_within].mean() < 0.7


@pytest.mark.parametrize("strength", [0.0, -0.5, 1.5, float("nan")])
def test_a_strength_beyond_nothing_and_all_is_refused(tmp_path: Path, strength: float) -> None:
    with pytest.raises(UsageError, match="incidents of strength") as caught:
        write_trace(tmp_path, jobs=1_000, incident_strength=strength)
    assert "--no-incidents" in (caught.value.hint or "")


def one_row_each(held: dict[int, tuple[int, int]]) -> Attempts:
    """An attempt for each machine, that holds a GPU between two seconds."""
    machine = np.array(list(held), dtype=np.int16)
    started, ended = (np.array([span[end] for span in held.values()], dtype=np.int32) for end in (0, 1))
    task = np.arange(len(held), dtype=np.int32)
    no = np.zeros(len(held), dtype=bool)
    status = np.full(len(held), TERMINATED, dtype=np.int8)
    return Attempts(task, task, task, status, started, ended, machine, no, ~no, ~no)


def racks_of(held: dict[int, tuple[int, int]], *, holds_gpu: bool = True) -> list[Closure | None]:
    plan = planned(inventory(20_000), 0, 0.5)
    assert plan.rack is not None
    rows, pool = one_row_each(held), np.arange(6)
    return [with_rack(plan, rows, np.full(len(rows), holds_gpu), pool, seed).rack for seed in range(40)]


def test_the_rack_dies_where_and_when_chance_has_it_of_those_that_hold_something() -> None:
    plan = planned(inventory(20_000), 0, 0.5)
    assert plan.rack is not None
    day = plan.rack.first_second - (plan.rack.first_second - FIRST_SECOND) % DAY
    # Machines 0 and 1 are busy in the morning, 3 to 5 in the evening; 2 never is, and no rack may count on it.
    morning, evening = (day + 3_600, day + 7_200), (day + 72_000, day + 75_600)
    racks = racks_of({0: morning, 1: morning, 3: evening, 4: evening, 5: evening})
    found = {tuple(rack.machines.tolist()) for rack in racks if rack is not None}
    assert found == {(0, 1), (3, 4), (4, 5)}
    for rack in racks:
        assert rack is not None
        first, last = morning if 0 in rack.machines else evening
        assert first < rack.first_second < last
        assert rack.last_second - rack.first_second == DAY // 2
    assert len({rack.first_second for rack in racks if rack is not None}) > 10


def test_a_rack_that_holds_nothing_does_not_die() -> None:
    busy = (FIRST_SECOND, FIRST_SECOND + 60 * DAY)
    assert set(racks_of({0: busy, 2: busy, 4: busy})) == {None}
    assert set(racks_of(dict.fromkeys(range(6), busy), holds_gpu=False)) == {None}
