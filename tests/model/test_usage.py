"""Who held how many GPU-hours, against a naive oracle."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import built, rows_of

STEP = 900
ZONE = ZoneInfo("Asia/Shanghai")


class Attempt(NamedTuple):
    user: str
    task: str
    instance: int
    status: str
    start: int
    end: int
    used_percent: float | None


REQUESTED = {"worker": 50.0, "chief": 200.0, "ps": None}


@st.composite
def an_attempt(draw: st.DrawFn) -> Attempt:
    start = draw(st.integers(1, 300))
    return Attempt(
        user=draw(st.sampled_from(["ann", "bob"])),
        task=draw(st.sampled_from(sorted(REQUESTED))),
        instance=draw(st.integers(0, 3)),
        status=draw(st.sampled_from(["Terminated", "Failed", "Interrupted", "Running"])),
        start=start * STEP,
        end=(start + draw(st.integers(0, 300))) * STEP,
        used_percent=draw(st.sampled_from([None, 0.0, 25.0, 500.0])),
    )


ATTEMPT = an_attempt()


def naive_usage(attempts: list[Attempt]) -> dict[tuple[str, date], dict[str, float]]:
    days: dict[tuple[str, date], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for attempt in attempts:
        requested = (REQUESTED[attempt.task] or 0) / 100
        if not requested:
            continue
        for second in range(attempt.start, attempt.end, STEP):
            day = days[(attempt.user, datetime.fromtimestamp(second, UTC).astimezone(ZONE).date())]
            hours = STEP / 3600
            day["held_gpu_hours"] += hours * requested
            if attempt.status in ("Failed", "Interrupted"):
                day["lost_gpu_hours"] += hours * requested
            elif attempt.used_percent is None:
                day["unobserved_gpu_hours"] += hours * requested
            elif not attempt.used_percent:
                day["idle_gpu_hours"] += hours * requested
            else:
                used = min(attempt.used_percent / 100, requested)
                day["used_gpu_hours"] += hours * used
                day["under_used_gpu_hours"] += hours * (requested - used)
    return days


def write_trace(folder: Path, attempts: list[Attempt]) -> None:
    users = sorted({attempt.user for attempt in attempts})
    tables = {
        "pai_job_table": [f"j{user},i{user},{user},Terminated,1.0,2.0" for user in users],
        "pai_task_table": [
            f"j{user},{task},1.0,Terminated,1.0,2.0,600.0,29.3,{'' if gpu is None else gpu},T4"
            for user in users
            for task, gpu in REQUESTED.items()
        ],
        "pai_instance_table": [
            f"j{attempt.user},{attempt.task},n{attempt.instance},w{number},i{attempt.user},{attempt.status},"
            f"{attempt.start}.0,{attempt.end}.0,m"
            for number, attempt in enumerate(attempts)
        ],
        "pai_sensor_table": [
            f"j,t,w{number},i,m,/dev/nvidia0,100.0,{attempt.used_percent},1,1,1,1,0,0,0,0"
            for number, attempt in enumerate(attempts)
            if attempt.used_percent is not None
        ],
    }
    for name, rows in tables.items():
        if rows:
            (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=st.lists(ATTEMPT, min_size=1, max_size=12))
def test_held_hours_are_what_a_walk_through_time_finds(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[Attempt]
) -> None:
    folder = tmp_path_factory.mktemp("held")
    write_trace(folder, attempts)
    rows = rows_of(built(folder, "gold_user_gpu_usage_daily"), "FROM gold_user_gpu_usage_daily")
    found = {(row["user_id"], row["dt"]): row for row in rows}
    expected = naive_usage(attempts)
    assert set(found) == set(expected)
    for key, oracle in expected.items():
        for column in (
            "held_gpu_hours",
            "used_gpu_hours",
            "idle_gpu_hours",
            "under_used_gpu_hours",
            "lost_gpu_hours",
            "unobserved_gpu_hours",
        ):
            assert found[key][column] == pytest.approx(oracle[column]), (key, column)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=st.lists(ATTEMPT, min_size=1, max_size=12))
def test_attempts_of_an_instance_are_numbered_from_one_without_gaps(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[Attempt]
) -> None:
    folder = tmp_path_factory.mktemp("attempts")
    write_trace(folder, attempts)
    lake = built(folder, "silver_instances", "pai_instance_table.csv")
    rows = rows_of(lake, "SELECT instance_key, list(attempt ORDER BY attempt) AS n FROM silver_instances GROUP BY 1")
    tries: dict[tuple[str, str, int], int] = defaultdict(int)
    for attempt in attempts:
        tries[(attempt.user, attempt.task, attempt.instance)] += 1
    assert sorted(str(row["n"]) for row in rows) == sorted(str(list(range(1, count + 1))) for count in tries.values())
