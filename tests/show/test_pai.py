"""The study of the PAI trace: every figure against plain Python on a small trace made by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.config import Config
from gpulake.core.pai import published
from gpulake.flow import Flow
from gpulake.show.pai.compare import curve_distance, curve_distance_beyond, distribution, share_at_most
from gpulake.show.pai.load import boxes, week_of
from gpulake.show.pai.machines import weighted
from gpulake.show.pai.parts import Content, Measure
from gpulake.show.pai.source import Trace
from gpulake.show.pai.study import opened
from gpulake.show.pai.usage import Usage, gpu, spare
from gpulake.show.pai.users import gangs, per_user, recurrence
from gpulake.show.pai.waits import Times, proportions, request_waits, wait_shares
from show.pai_by_hand import MACHINES, Task, made_by_hand, write

CLASSES: dict[str, Callable[[float], bool]] = {
    "<25": lambda plan: plan < 25,
    "[25,50)": lambda plan: 25 <= plan < 50,
    "[50,100)": lambda plan: 50 <= plan < 100,
    "=100": lambda plan: plan == 100,
    ">100": lambda plan: plan > 100,
}


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return made_by_hand()


@pytest.fixture(scope="module")
def source(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    folder = tmp_path_factory.mktemp("by_hand")
    write(folder / "raw", tasks)
    flow = Flow(Config(lake=folder / "lake", threads=1))
    flow.refresh([folder / "raw"], None)
    with flow.lake.reading() as reader:
        yield opened(reader)


def measured(content: Content, name: str) -> Measure:
    return next(measure for measure in content.measures if measure.name == name)


def naive_distance(sample: list[float], facts: dict[str, Any]) -> float:
    """The largest |F(x_q) - q|, counting anew for each point."""
    gaps = []
    for percent, value in zip(facts["percent"], facts["value"], strict=True):
        gaps.append(abs(sum(one <= value for one in sample) / len(sample) - percent / 100))
    return float(max(gaps))


def test_2a_counts_the_tasks_of_each_user(source: Trace, tasks: list[Task]) -> None:
    counts = [float(count) for count in Counter(task.user for task in tasks).values()]
    result = measured(per_user(source), "tasks of a user, median")
    assert result.ours == median(counts)
    assert result.distance == pytest.approx(naive_distance(counts, published()["curves"]["users"]["tasks"]))


def test_2b_counts_instances_by_the_size_of_their_gang(source: Trace, tasks: list[Task]) -> None:
    share = 100 * sum(task.size for task in tasks if task.size >= 2) / sum(task.size for task in tasks)
    content = gangs(source)
    assert measured(content, "in tasks of 2 and more").ours == pytest.approx(share)
    came = next(curve for curve in content.curves if curve.label == "that ran")
    # Beside what ran, each task has one instance that is waiting still.
    sizes = [task.size + 1 for task in tasks]
    expected = [100 * sum(size for size in sizes if size >= least) / sum(sizes) for least in came.x]
    assert came.y == pytest.approx(expected, abs=0.001)


def test_a_job_without_a_tag_does_not_recur(source: Trace, tasks: list[Task]) -> None:
    groups = Counter(task.group or task.name for task in tasks)
    share = 100 * sum(count for count in groups.values() if count >= 5) / len(tasks)
    assert any(not task.group for task in tasks)
    assert measured(recurrence(source), "of groups of 5 and more").ours == pytest.approx(share)


def test_4b_splits_tasks_at_the_median_run_time(source: Trace, tasks: list[Task]) -> None:
    middle = median(task.run_seconds for task in tasks if task.run_seconds is not None)
    halves: dict[str, list[float]] = {"short": [], "long": [], "all": []}
    for task in tasks:
        if task.wait is None or task.run_seconds is None or task.wait + task.run_seconds == 0:
            continue
        percent = 100 * task.wait / (task.wait + task.run_seconds)
        halves["long" if task.run_seconds > middle else "short"].append(percent)
        halves["all"].append(percent)
    content = wait_shares(Times(source))
    for half in ("short", "long"):
        ours = 100 * sum(percent > 50 for percent in halves[half]) / len(halves[half])
        assert measured(content, f"{half}, waits more than half").ours == pytest.approx(ours)
    for half, sample in halves.items():
        result = next(measure for measure in content.measures if measure.name.startswith(f"{half}, at most"))
        assert result.distance == pytest.approx(naive_distance(sample, published()["points"]["wait_percent"][half]))


def test_5a_waits_are_those_of_the_class_that_an_instance_asks_for(source: Trace, tasks: list[Task]) -> None:
    content = request_waits(Times(source))
    for name, is_of_class in CLASSES.items():
        waits = [task.wait for task in tasks if task.plan_gpu and is_of_class(task.plan_gpu) and task.wait is not None]
        result = measured(content, f"{name} %, median")
        assert result.ours == median(waits)
        facts = published()["curves"]["request_wait_seconds"][name]
        assert result.distance == pytest.approx(naive_distance([float(wait) for wait in waits], facts))


def test_5c_shares_are_of_the_tasks_that_ask_for_a_gpu(source: Trace, tasks: list[Task]) -> None:
    with_gpu = [task for task in tasks if task.plan_gpu]
    content = proportions(Times(source))
    for name, is_of_class in CLASSES.items():
        share = 100 * sum(is_of_class(task.plan_gpu or 0) for task in with_gpu) / len(with_gpu)
        assert measured(content, f"asks for {name} % of a GPU").ours == pytest.approx(share)
    for kind in ("T4", "MISC", "V100"):
        share = 100 * sum(task.gpu_type == kind for task in with_gpu) / len(with_gpu)
        assert measured(content, kind).ours == pytest.approx(share)


def test_6b_counts_a_worker_once_and_all_of_its_boards(source: Trace, tasks: list[Task]) -> None:
    sensed = [task for task in tasks if task.sensors and task.plan_gpu]
    used = [sum(sum(boards) for _, boards, _ in task.sensors.values()) for task in sensed]
    asked = [(task.plan_gpu or 0) * len(task.sensors) for task in sensed]
    content = gpu(Usage(source))
    above = 100 * sum(plan > use for plan, use in zip(asked, used, strict=True)) / len(sensed)
    assert measured(content, "GPU plan above use").ours == pytest.approx(above)
    result = measured(content, "used, median")
    assert result.ours == pytest.approx(median(used))
    assert result.distance == pytest.approx(naive_distance(used, published()["curves"]["usage"]["gpu_percent"]))


def test_6d_divides_by_machines_in_both_ways(source: Trace, tasks: list[Task]) -> None:
    by_worker, once = [], []
    for task in tasks:
        if not task.sensors:
            continue
        machine_of = {worker: machine for worker, _, _, machine in task.runs}
        used = sum(cpu for cpu, _, _ in task.sensors.values())
        above = used - task.plan_cpu * len(task.sensors)
        placed = [machine_of[worker] for worker in task.sensors]
        by_worker.append(above / sum(MACHINES[machine][1] for machine in placed))
        once.append(above / sum(MACHINES[machine][1] for machine in set(placed)))
    content = spare(Usage(source))
    assert measured(content, "CPU, median").ours == pytest.approx(median(by_worker))
    assert measured(content, "CPU, machines once, median").ours == pytest.approx(median(once))
    facts = published()["curves"]["spare_percent"]["cpu"]
    assert measured(content, "CPU, median").distance == pytest.approx(naive_distance(by_worker, facts))


@given(
    st.lists(st.integers(0, 12).map(float), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 99), st.integers(0, 12)), min_size=1, max_size=8),
)
def test_the_distance_of_a_curve_is_the_largest_gap(sample: list[float], points: list[tuple[int, int]]) -> None:
    percent, value = [point[0] for point in points], [point[1] for point in points]
    ordered = np.sort(np.array(sample))
    expected = naive_distance(sample, {"percent": percent, "value": value})
    assert curve_distance(ordered, percent, value) == pytest.approx(expected)
    beyond = curve_distance_beyond(ordered, percent, value)
    nearest = []
    for share, at in zip(percent, value, strict=True):
        error = (0.15 if share >= 98 else 0.08) * at
        least = sum(one < at - error for one in sample) / len(sample)
        most = sum(one <= at + error for one in sample) / len(sample)
        nearest.append(max(least - share / 100, share / 100 - most, 0))
    assert beyond == pytest.approx(max(nearest))
    assert beyond <= expected + 1e-12


def test_half_the_tasks_at_a_value_that_was_read_a_little_low_are_no_distance() -> None:
    ordered = np.array([1.0] * 10 + [3.0] * 80 + [10.0] * 10)
    assert curve_distance(ordered, [50], [2.936]) == pytest.approx(0.4)
    assert curve_distance_beyond(ordered, [50], [2.936]) == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=900))
def test_a_drawn_distribution_is_true_and_small(sample: list[float]) -> None:
    ordered = np.sort(np.array(sample))
    curve = distribution("all", ordered)
    assert len(curve.x) <= 200
    assert curve.x == sorted(curve.x)
    assert curve.y[-1] == 100
    assert float(share_at_most(ordered, np.inf)) == 1


def test_whiskers_end_at_the_last_value_within_a_box() -> None:
    low, quarter, middle, three_quarters, high = boxes(
        np.array([[0.0], [10.0], [11.0], [12.0], [13.0], [14.0], [90.0]])
    )
    assert [float(part[0]) for part in (low, quarter, middle, three_quarters, high)] == [10, 10.5, 12, 13.5, 14]


def test_the_published_week_is_taken_where_it_is_there() -> None:
    first = np.datetime64("1970-01-16")
    days = [day.item() for day in np.arange(first, first + 30)]
    assert str(days[week_of(days) or 0]) == "1970-01-25"
    assert str(days[20:][week_of(days[20:]) or 0]) == "1970-02-08"
    assert week_of(days[:8]) is None


def test_time_weighs_in_utilisation() -> None:
    value, share = weighted(np.array([50.0, 10.0, 50.0]), np.array([1.0, 6.0, 1.0]))
    assert (value.tolist(), share.tolist()) == ([10.0, 50.0], [0.75, 1.0])
