"""Daily utilisation against a naive oracle that walks through time in steps of ten minutes."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conftest import built, rows_of
from examples import cases
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake

pytestmark = pytest.mark.slow

STEP = 600
ZONE = ZoneInfo("Asia/Shanghai")
MACHINES = {"m2": (2, 64), "m8": (8, 96), "cpu": (0, 96)}


class Window(NamedTuple):
    machine: str
    start: int
    end: int
    gpu_percent: float | None
    cpu_percent: float


@st.composite
def windows(draw: st.DrawFn) -> Window:
    machine = draw(st.sampled_from(sorted(MACHINES)))
    start = draw(st.integers(1, 500))
    # Some end before they begin: they hold nothing, and hide no others.
    length = max(draw(st.integers(-20, 300)), 1 - start)
    gpus = MACHINES[machine][0]
    percent = draw(st.sampled_from([0.0, 12.5, 100.0])) * gpus if gpus else None
    return Window(machine, start * STEP, (start + length) * STEP, percent, draw(st.sampled_from([0.0, 25.0, 100.0])))


def local_date(second: int) -> date:
    return datetime.fromtimestamp(second, UTC).astimezone(ZONE).date()


def naive_days(given_windows: list[Window]) -> dict[date, dict[str, float]]:
    """At each step of each machine, the mean of the windows that hold it."""
    days: dict[date, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for machine, (gpus, cores) in MACHINES.items():
        own = [window for window in given_windows if window.machine == machine]
        for second in range(0, 1_000 * STEP, STEP):
            holding = [window for window in own if window.start <= second < window.end]
            if not holding:
                continue
            day = days[local_date(second)]
            day["core_steps"] += cores
            day["busy_core_steps"] += cores * sum(window.cpu_percent for window in holding) / len(holding) / 100
            percents = [window.gpu_percent for window in holding if window.gpu_percent is not None]
            if percents:
                day["gpu_steps"] += gpus
                day["busy_gpu_steps"] += sum(percents) / len(percents) / 100
    return days


def write_trace(folder: Path, given_windows: list[Window]) -> None:
    specs = [f"{machine},{'T4' if gpus else 'CPU'},{cores},512,{gpus}" for machine, (gpus, cores) in MACHINES.items()]
    (folder / "pai_machine_spec.csv").write_text("\n".join(specs) + "\n")
    rows = [
        f"w{number},{window.machine},{window.start}.0,{window.end}.0,0,0,0,"
        f"{'' if window.gpu_percent is None else window.gpu_percent},0,0,1,{window.cpu_percent}"
        for number, window in enumerate(given_windows)
    ]
    (folder / "pai_machine_metric.csv").write_text("\n".join(rows) + "\n")


@settings(max_examples=cases(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_windows=st.lists(windows(), min_size=1, max_size=12))
@example([Window("m2", 10 * STEP, 60 * STEP, 100.0, 25.0), Window("m2", 40 * STEP, 20 * STEP, 100.0, 25.0)])
def test_daily_utilisation_is_what_a_walk_through_time_finds(
    tmp_path_factory: pytest.TempPathFactory, given_windows: list[Window]
) -> None:
    folder = tmp_path_factory.mktemp("walk")
    write_trace(folder, given_windows)
    lake = built(folder, "gold_cluster_util_daily")
    found = {row["dt"]: row for row in rows_of(lake, "FROM gold_cluster_util_daily") if isinstance(row["dt"], date)}
    expected = naive_days(given_windows)
    assert set(found) >= set(expected)
    for day, row in found.items():
        oracle = expected[day]
        assert row["observed_gpu_hours"] == pytest.approx(oracle["gpu_steps"] * STEP / 3600)
        assert row["busy_gpu_hours"] == pytest.approx(oracle["busy_gpu_steps"] * STEP / 3600)
        assert row["capacity_gpu_hours"] == pytest.approx(240)
        assert row["coverage_ratio"] == pytest.approx(oracle["gpu_steps"] * STEP / 3600 / 240)
        if oracle["core_steps"]:
            assert row["cpu_util_ratio"] == pytest.approx(oracle["busy_core_steps"] / oracle["core_steps"])
        if oracle["gpu_steps"]:
            assert row["gpu_util_ratio"] == pytest.approx(oracle["busy_gpu_steps"] / oracle["gpu_steps"])
        else:
            assert row["gpu_util_ratio"] is None


def test_a_day_of_the_reference_ends_where_its_time_zone_says(tmp_path: Path) -> None:
    # 05:30 UTC is still the day before in Chicago, and half past one in the afternoon in Shanghai.
    end = int(datetime(1970, 1, 28, 5, 30, tzinfo=UTC).timestamp())
    write_trace(tmp_path, [Window("m2", end - 3600, end, 50.0, 10.0)])
    days = {}
    for zone in ("UTC", "America/Chicago"):
        config = Config(lake=tmp_path / zone.replace("/", "_"), threads=1, reference_time_zone=zone)
        flow = Flow(config)
        flow.land([tmp_path / "pai_machine_spec.csv", tmp_path / "pai_machine_metric.csv"])
        flow.build(["gold_cluster_util_daily_reference"])
        days[zone] = rows_of(Lake(config), "FROM gold_cluster_util_daily_reference")
    numbers = {"avg_gpu_util": 50.0, "p95_gpu_util": 50.0, "avg_cpu_util": 10.0}
    assert days == {
        "UTC": [{"dt": date(1970, 1, 28), **numbers}],
        "America/Chicago": [{"dt": date(1970, 1, 28) - timedelta(days=1), **numbers}],
    }
