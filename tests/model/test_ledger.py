"""The efficiency marts against a naive walk through small random traces, around a day on which the clocks change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.config import Cluster, Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from naive import DAY, LOST, MACHINES, Attempt, Job, Task, World, clock_change, write_trace

ZONE = "America/New_York"
BEGIN = clock_change(ZoneInfo(ZONE), 1970)
# Steps that do not divide an hour, so that pieces of hours count.
STEP = 700
SPAN = 150
moments = st.integers(0, SPAN).map(lambda steps: BEGIN + steps * STEP)
maybe = st.one_of(st.none(), moments)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    status = draw(st.sampled_from(["Terminated", "Terminated", "Failed", "Interrupted", "Running", "Waiting"]))
    start, end = draw(maybe), draw(maybe)
    if status == "Terminated":
        start = draw(moments)
        end = start + draw(st.integers(0, 90)) * STEP
    if status == "Waiting":
        start = end = None
    if status == "Running":
        end = None
    return Attempt(
        instance=draw(st.integers(0, 2)),
        status=status,
        start=start,
        end=end,
        machine=draw(st.sampled_from(sorted(MACHINES))),
        used_percent=draw(st.sampled_from([None, 0.0, 0.4, 30.0, 500.0])),
    )


@st.composite
def tasks(draw: st.DrawFn, name: str) -> Task:
    return Task(
        name=name,
        gpu_percent=draw(st.sampled_from([None, 10.0, 50.0, 100.0, 400.0])),
        planned=draw(st.integers(1, 3)),
        launch=draw(maybe),
        end=draw(maybe),
        # Ties have no order: two attempts of an instance that begin and end together are the same attempt.
        attempts=tuple(
            {
                (entry.instance, entry.start, entry.end): entry for entry in draw(st.lists(attempts(), max_size=5))
            }.values()
        ),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Job, ...]:
    return tuple(
        Job(
            name=f"j{number}",
            user=draw(st.sampled_from(["ann", "bob"])),
            group=draw(st.sampled_from(["g", "h"])),
            status=draw(st.sampled_from(["Terminated", "Failed", "Running"])),
            submit=draw(moments),
            end=draw(maybe),
            tasks=tuple(draw(tasks(name)) for name in ("ps", "worker")[: draw(st.integers(1, 2))]),
        )
        for number in range(draw(st.integers(1, 4)))
    )


def build(folder: Path, jobs: tuple[Job, ...]) -> Lake:
    write_trace(folder, jobs)
    clusters = {"pai": Cluster(time_zone=ZONE, has_stale_running=True)}
    # Silence proves nothing in a world as small as this one.
    flow = Flow(Config(lake=folder / "lake", threads=1, clusters=clusters, missed_busy_hours=1e6))
    flow.land([folder])
    flow.build()
    return flow.lake


def close(found: dict[Any, dict[str, object]], expected: dict[Any, dict[str, float]], columns: list[str]) -> None:
    assert set(found) == set(expected)
    for key, row in expected.items():
        for column in columns:
            assert found[key][column] == pytest.approx(row.get(column, 0), abs=1e-9), (key, column)


SLOW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HELD = [f"{bucket}_gpu_hours" for bucket in ("idle", "under_used", "lost", "unobserved", "productive")]


@SLOW
@given(jobs=worlds())
def test_every_mart_is_what_a_naive_walk_finds(tmp_path_factory: pytest.TempPathFactory, jobs: tuple[Job, ...]) -> None:
    lake = build(tmp_path_factory.mktemp("world"), jobs)
    world = World(jobs, ZoneInfo(ZONE))
    check_holdings(lake, world)
    check_ledger(lake, world)
    check_job_days(lake, world)
    check_whose(lake, world)
    check_waits(lake, world)
    check_groups(lake, world)
    check_failures(lake, world)
    check_goodput(lake, world)
    check_lemons(lake, world)
    check_energy(lake, world)


def check_holdings(lake: Lake, world: World) -> None:
    rows = rows_of(
        lake,
        "SELECT attempt, status, gpus, bucket, epoch(held_from), epoch(held_until), is_inferred FROM silver_holdings",
    )
    words = {"Terminated": "succeeded", "Failed": "failed", "Interrupted": "interrupted", "Running": "running"}
    expected = [
        (hold.number, words[hold.attempt.status], hold.task.gpus, hold.bucket, hold.begin, hold.end, hold.is_inferred)
        for hold in world.holdings
    ]
    assert sorted(tuple(row.values()) for row in rows) == sorted(expected)


def check_ledger(lake: Lake, world: World) -> None:
    columns = ["capacity_gpu_hours", "unallocated_gpu_hours", "overcommitted_gpu_hours", *HELD]
    rows = rows_of(lake, "SELECT *, epoch(started_at) AS hour FROM gold_ledger_hourly")
    close({(row["hour"], row["gpu_type"]): row for row in rows}, world.ledger(), columns)
    by_machine = rows_of(lake, f"SELECT sum({'), sum('.join(columns)}) FROM gold_machine_hours")
    of_ledger = rows_of(lake, f"SELECT sum({'), sum('.join(columns)}) FROM gold_ledger_hourly")
    assert list(by_machine[0].values()) == pytest.approx(list(of_ledger[0].values()))


def check_job_days(lake: Lake, world: World) -> None:
    columns = ["held_gpu_hours", "inferred_gpu_hours", "used_gpu_hours", *HELD]
    rows = rows_of(lake, "FROM gold_job_efficiency_daily")
    # A machine without GPUs is no capacity.
    expected = {
        (job, day, "unlisted" if kind == "CPU" else kind): row for (job, day, kind), row in world.job_days().items()
    }
    close({(row["job_id"], row["dt"], row["gpu_type"]): row for row in rows}, expected, columns)
    users: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    owners = {job.name: job.user for job in world.jobs}
    for (job, day, _), row in expected.items():
        for column in columns[:2] + HELD:
            users[(owners[job], day)][column] += row.get(column, 0)
    found = rows_of(lake, "FROM gold_user_gpu_usage_daily")
    close({(row["user_id"], row["dt"]): row for row in found}, users, columns[:2] + HELD)


def check_whose(lake: Lake, world: World) -> None:
    """Day by day and type by type, the shares of users and nobody's add up to the hourly ledger, bucket by bucket."""
    buckets = ["capacity_gpu_hours", "unallocated_gpu_hours", *HELD]
    expected: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (hour, kind), row in world.ledger().items():
        for column in buckets:
            expected[(world.day(hour), kind)][column] += row[column]
    sums = ", ".join(f"sum({column}) AS {column}" for column in buckets)
    rows = rows_of(lake, f"SELECT dt, gpu_type, {sums} FROM gold_ledger_daily GROUP BY dt, gpu_type")
    close({(row["dt"], row["gpu_type"]): row for row in rows}, expected, buckets)


def quantile(values: list[float], share: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def size(gpus: float) -> str:
    bounds = [(0.25, "1: below 0.25"), (0.5, "2: 0.25 to 0.5"), (1, "3: 0.5 to 1")]
    if round(gpus, 3) == 1:
        return "4: 1"
    return next((name for bound, name in bounds if gpus < bound), "5: above 1, below 8" if gpus < 8 else "6: 8 to 63")


def check_waits(lake: Lake, world: World) -> None:
    launches: dict[str, list[float]] = defaultdict(list)
    starts: dict[str, list[float]] = defaultdict(list)
    waiting: dict[int, float] = defaultdict(float)
    submitted: dict[int, float] = defaultdict(float)
    for job in world.jobs:
        for task in job.tasks:
            if not task.gpus or task.launch is None:
                continue
            kind = size(task.gpus * task.planned)
            first = min((entry.start for entry in task.attempts if entry.start is not None), default=None)
            if task.launch >= job.submit:
                launches[kind].append(task.launch - job.submit)
            if first is not None and first >= task.launch:
                starts[kind].append(first - task.launch)
            until = first if first is not None else min(task.end or world.observed[1], world.observed[1])
            # Of what runs, and nobody noted since when, nobody knows how long it waited.
            is_told = first is not None or task.end is not None or job.status == "Waiting"
            for hour, hours in world.pieces(task.launch, until) if is_told else ():
                waiting[hour] += hours * task.gpus * task.planned
            submitted[task.launch // 3600 * 3600] += task.gpus * task.planned
    for row in rows_of(lake, "FROM gold_queue_waits"):
        kind = str(row["request_size"])
        for percent in (50, 75, 90, 95, 99):
            launch, start = row[f"p{percent}_launch_wait_seconds"], row[f"p{percent}_start_wait_seconds"]
            assert launch == pytest.approx(quantile(launches[kind], percent / 100))
            assert start == pytest.approx(quantile(starts[kind], percent / 100))
        assert (row["launch_wait_tasks"], row["start_wait_tasks"]) == (len(launches[kind]), len(starts[kind]))
    for row in rows_of(lake, "SELECT *, epoch(started_at) AS hour FROM gold_demand_hourly WHERE gpu_type = 'T4'"):
        hour = int(float(str(row["hour"])))
        assert row["waiting_gpu_hours"] == pytest.approx(waiting[hour], abs=1e-9)
        assert row["requested_gpus"] == pytest.approx(submitted.get(hour, 0), abs=1e-9)


def check_groups(lake: Lake, world: World) -> None:
    rows = {row["group_id"]: row for row in rows_of(lake, "FROM gold_group_recurrence")}
    for group, row in rows.items():
        jobs = [job for job in world.jobs if job.group == group]
        spans = [float(job.end - job.submit) for job in jobs if job.end is not None and job.end >= job.submit]
        assert (row["jobs"], row["users"]) == (len(jobs), len({job.user for job in jobs}))
        assert row["failed_jobs"] == sum(job.status == "Failed" for job in jobs)
        assert row["median_turnaround_seconds"] == pytest.approx(quantile(spans, 0.5))
    assert set(rows) == {job.group for job in world.jobs}


def check_failures(lake: Lake, world: World) -> None:
    first, last = world.observed
    expected: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for hold in world.holdings:
        if hold.bucket == "lost" and world.day(first) <= world.day(hold.end) <= world.day(last):
            machine = MACHINES[hold.attempt.machine]
            kind = "T4" if machine.gpu_type == "CPU" else machine.gpu_type
            row = expected[(world.day(hold.end), hold.attempt.status.lower(), kind)]
            row["attempts"] += 1
            row["lost_gpu_hours"] += hold.task.gpus * (hold.end - hold.begin) / 3600
    rows = rows_of(lake, "FROM gold_failures_daily")
    close({(row["dt"], row["status"], row["gpu_type"]): row for row in rows}, expected, ["attempts", "lost_gpu_hours"])


def check_goodput(lake: Lake, world: World) -> None:
    expected: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for job in world.jobs:
        holds = [hold for hold in world.holdings if hold.job is job]
        gang = sum(hold.task.gpus for hold in holds if hold.number == 1)
        if not holds or not gang or job.end is None or job.end < job.submit:
            continue
        row = expected[(world.day(job.end), size(gang))]
        row["ended_jobs"] += 1
        row["restarts"] += max(hold.number for hold in holds) - 1
        row["held_gpu_hours"] += sum(hold.task.gpus * (hold.end - hold.begin) for hold in holds) / 3600
        good = [hold for hold in holds if hold.bucket != "lost"]
        row["good_gpu_hours"] += sum(hold.task.gpus * (hold.end - hold.begin) for hold in good) / 3600
        row["wall"] += gang * (job.end - job.submit)
        row["progress"] += gang * min(together(good), job.end - job.submit)
    for row in expected.values():
        row["ettr_ratio"] = row["progress"] / row["wall"] if row["wall"] else 0.0
    rows = rows_of(lake, "FROM gold_goodput_daily")
    columns = ["ended_jobs", "restarts", "held_gpu_hours", "good_gpu_hours", "ettr_ratio"]
    close({(row["dt"], row["request_size"]): row for row in rows}, expected, columns)


def together(holds: list[Any]) -> float:
    """The seconds in which at least one of them held GPUs, second by second of their edges."""
    edges: list[int] = sorted({edge for hold in holds for edge in (hold.begin, hold.end)})
    return sum(
        after - before
        for before, after in pairwise(edges)
        if any(hold.begin <= before and after <= hold.end for hold in holds)
    )


def check_lemons(lake: Lake, world: World) -> None:
    rows = rows_of(lake, "FROM gold_lemon_machines")
    assert {row["machine_id"] for row in rows} == {hold.attempt.machine for hold in world.holdings}
    for row in rows:
        holds = [hold for hold in world.holdings if hold.attempt.machine == row["machine_id"]]
        failed = {hold.job.name for hold in holds if hold.attempt.status == "Failed"}
        assert (row["jobs"], row["failed_jobs"]) == (len({hold.job.name for hold in holds}), len(failed))
        lost = sum(hold.task.gpus * (hold.end - hold.begin) for hold in holds if hold.attempt.status in LOST) / 3600
        assert row["lost_gpu_hours"] == pytest.approx(lost)


def check_energy(lake: Lake, world: World) -> None:
    days: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (hour, kind), row in world.ledger().items():
        for column, value in row.items():
            days[(world.day(hour), kind)][column] += value
    watts = {"T4": (70, 10), "V100": (300, 38)}
    for found in rows_of(lake, "FROM gold_energy_daily"):
        row = days[(found["dt"], found["gpu_type"])]
        today = [other for (day, _), other in days.items() if day == found["dt"]]
        ratio = next((share for rows in (today, days.values()) if (share := _busy_ratio(rows)) is not None), 1.0)
        busy = row["productive_gpu_hours"] + ratio * (row["lost_gpu_hours"] + row["unobserved_gpu_hours"])
        busy_watts, idle_watts = watts[str(found["gpu_type"])]
        energy = (busy * busy_watts + (row["capacity_gpu_hours"] - busy) * idle_watts) / 1000
        assert found["energy_kilowatt_hours"] == pytest.approx(energy)
        assert found["capacity_cost"] is None


def _busy_ratio(rows: Iterable[dict[str, float]]) -> float | None:
    """Of what was measured; None where nothing was."""
    measured = [[row[f"{name}_gpu_hours"] for name in ("productive", "under_used", "idle")] for row in rows]
    seen = sum(map(sum, measured))
    return sum(values[0] for values in measured) / seen if seen else None


def test_the_clocks_do_change_in_these_traces() -> None:
    noon = datetime.fromtimestamp(BEGIN, UTC).astimezone(ZoneInfo(ZONE))
    assert (noon.hour, datetime.fromtimestamp(BEGIN + DAY, UTC).astimezone(ZoneInfo(ZONE)).hour) == (12, 13)
