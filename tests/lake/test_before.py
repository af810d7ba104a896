"""The tables of the ledger under the names that they had before."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from hand_made import Attempt, build_trace, write_trace

ATTEMPTS = [
    Attempt("wide", "ann", 1, 11, gpus=4, used=1),
    Attempt("empty", "ann", 1, 11, gpus=2, used=0),
    Attempt("long", "bob", 12, 17, gpus=4, used=2, status="failed"),
    Attempt("stopped", "bob", 12, 13, gpus=4, status="interrupted"),
    Attempt("unseen", "eve", 18, 23, machine="t"),
]
# By the columns' names of then, in their order; each GPU-hour is counted by hand.
LEDGER = """
SELECT
    sum(capacity_gpu_hours - down_gpu_hours - unallocated_gpu_hours) AS held, sum(idle_gpu_hours) AS idle,
    sum(under_used_gpu_hours) AS under_used, sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved,
    sum(productive_gpu_hours) AS productive
FROM before.{table}
"""
BY_HAND = {"held": 89.0, "idle": 20.0, "under_used": 30.0, "lost": 24.0, "unobserved": 5.0, "productive": 10.0}
JOBS = ["cluster_id", "dt", "job_key", "job_id", "user_id", "group_id", "workload", "gpu_type", "status", "attempts"]
JOBS += ["held_gpu_hours", "idle_gpu_hours", "under_used_gpu_hours", "lost_gpu_hours", "unobserved_gpu_hours"]
JOBS += ["productive_gpu_hours", "inferred_gpu_hours", "used_gpu_hours", "gpu_efficiency_ratio"]


@pytest.fixture
def small(config: Config) -> Config:
    return build_trace(config, ATTEMPTS)


@pytest.mark.parametrize("table", ["gold_machine_hours", "gold_ledger_hourly", "gold_ledger_daily"])
def test_the_ledger_can_be_read_under_its_old_names(small: Config, table: str) -> None:
    assert rows_of(Lake(small), LEDGER.format(table=table)) == [pytest.approx(BY_HAND)]


def test_what_sensors_measured_in_a_job_was_called_used(small: Config) -> None:
    rows = rows_of(Lake(small), "FROM before.gold_job_efficiency_daily ORDER BY job_id")
    assert list(rows[0]) == JOBS
    shown = [(row["job_id"], row["productive_gpu_hours"], row["lost_gpu_hours"], row["used_gpu_hours"]) for row in rows]
    assert shown == [
        ("empty", 0.0, 0.0, 0.0),
        ("long", 0.0, pytest.approx(20.0), pytest.approx(10.0)),
        ("stopped", 0.0, pytest.approx(4.0), 0.0),
        ("unseen", 0.0, 0.0, 0.0),
        ("wide", pytest.approx(10.0), 0.0, pytest.approx(10.0)),
    ]
    users = rows_of(
        Lake(small),
        "SELECT user_id, productive_gpu_hours FROM before.gold_user_gpu_usage_daily WHERE productive_gpu_hours > 0",
    )
    assert users == [{"user_id": "ann", "productive_gpu_hours": pytest.approx(10.0)}]


def test_what_is_unknown_counted_as_unallocated(small: Config) -> None:
    same = """
    SELECT sum(unallocated_gpu_hours) - (SELECT sum(unallocated_gpu_hours + unknown_gpu_hours) FROM gold_ledger_hourly)
        AS apart
    FROM before.gold_ledger_hourly
    """
    assert rows_of(Lake(small), same) == [{"apart": pytest.approx(0.0, abs=1e-9)}]


@pytest.mark.slow
def test_a_build_that_extends_another_has_them_too(small: Config, tmp_path: Path) -> None:
    more = [Attempt("more", "zoe", 26, 27, gpus=1, used=1)]
    Flow(small).refresh([write_trace(tmp_path / "more", more)], None)
    productive = "SELECT sum(productive_gpu_hours) AS productive FROM before.gold_ledger_daily"
    assert rows_of(Lake(small), productive) == [{"productive": pytest.approx(11.0)}]


@pytest.mark.slow
def test_a_build_of_a_few_tables_has_only_theirs(config: Config, tmp_path: Path) -> None:
    Flow(config).refresh([write_trace(tmp_path / "raw", ATTEMPTS)], None, ["gold_machine_hours"])
    names = "SELECT view_name AS name FROM duckdb_views() WHERE schema_name = 'before'"
    assert rows_of(Lake(config), names) == [{"name": "gold_machine_hours"}]


def test_the_command_reads_them_and_so_does_the_engine_alone(small: Config) -> None:
    asked = ["sql", "from before.gold_ledger_daily", "--lake", str(small.lake), "--format", "csv"]
    answer = CliRunner().invoke(root, asked)
    assert (answer.exit_code, "productive_gpu_hours" in answer.output) == (0, True), answer.output
    current = Lake(small).builds.current()
    with duckdb.connect(str(current), read_only=True) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM before.gold_ledger_daily").fetchall() == [(True,)]
