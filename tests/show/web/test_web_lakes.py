"""The lake that tests of the dashboard look at has what they look for."""

from __future__ import annotations

import pytest

from conftest import rows_of
from examples import each
from gpulake.core.config import Config
from gpulake.lake import Lake

SILVER = [
    "jobs",
    "tasks",
    "instances",
    "instance_usage",
    "holdings",
    "nodes",
    "host_samples",
    "link_samples",
    "process_samples",
    "gpu_samples",
    "invocations",
    "node_events",
    "outages",
]
GOLD = [
    "ledger_hourly",
    "hot_gpus_daily",
    "throttled_gpus_daily",
    "gpu_errors_daily",
    "idle_gpus_daily",
    "job_energy",
    "lemon_machines",
    "cluster_util_daily_scored",
]
OTHER = [
    "findings",
    "diagnoses",
    "incidents",
    "alerts",
    "quarantine",
    "landings",
    "runs",
    "test_results",
    "log_templates",
]
TABLES = [*(f"silver_{name}" for name in SILVER), *(f"gold_{name}" for name in GOLD), *OTHER]


@pytest.mark.slow
@each("table", TABLES)
def test_no_table_is_empty(rich: Config, table: str) -> None:
    assert rows_of(Lake(rich), f"SELECT count(*) > 0 AS is_filled FROM {table}") == [{"is_filled": True}]


def test_incidents_stand_as_people_left_them(rich: Config) -> None:
    states = {row["state"] for row in rows_of(Lake(rich), "SELECT state FROM incidents")}
    assert states == {"open", "acknowledged", "muted", "resolved"}
