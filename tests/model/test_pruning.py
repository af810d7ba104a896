"""A build leaves out the SQL of sources that have no rows, and whole models that can have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import built_from
from gpulake.core.config import Config
from gpulake.lake import Lake, Staging
from gpulake.lake.engine import name
from gpulake.model.build import write_settings
from gpulake.model.plan import shipped_plan
from gpulake.model.pruning import PREFIX, Step, is_empty, kept, pruned, with_steps, without_steps

ROWS = Step("rows", 'select * from "landed"."main"."bronze_a"', {"id": "bigint"}, (("bronze_a",),))
JOBS = Step("jobs", f"select id as job from {PREFIX}rows", {"job": "bigint", "a b": "varchar"}, (("bronze_a",),))
STEPS = (ROWS, JOBS)
BODY = f"-- Jobs with a machine.\nwith jobs as (select * from {PREFIX}jobs) select * from jobs"


def test_a_model_is_preceded_by_the_steps_that_it_reads_each_after_its_own() -> None:
    sql = with_steps(BODY, {step.name: step for step in STEPS})
    assert sql.index(f"{PREFIX}rows as (") < sql.index(f"{PREFIX}jobs as (") < sql.index("jobs as (select * from")
    assert without_steps(sql, STEPS) == BODY


def test_a_step_without_rows_keeps_its_columns_and_takes_the_steps_that_only_it_reads_along() -> None:
    sql = with_steps(BODY, {step.name: step for step in STEPS})
    assert pruned(sql, STEPS, {"bronze_b"}) == sql
    assert pruned(sql, STEPS, {"bronze_a"}) == (
        f'-- Jobs with a machine.\nwith {PREFIX}jobs as (select null::bigint as "job", null::varchar as "a b" where'
        f" false),\njobs as (select * from {PREFIX}jobs) select * from jobs"
    )


def test_renamed_columns_of_what_landed_are_read_again_and_work_is_done_once() -> None:
    renamed = Step("renamed", '-- Joined later.\nselect id as job from "landed"."main"."bronze_a"', {})
    counted = Step("counted", 'select id as job, count(*) as rows from "landed"."main"."bronze_a" group by id', {})
    assert renamed.text.startswith(f"{PREFIX}renamed as not materialized (")
    assert counted.text.startswith(f"{PREFIX}counted as (")


def test_a_step_that_is_to_be_kept_is_written_down_before_its_reader_runs() -> None:
    sql = f"-- Kept: by job.\nwith rows as (select * from {PREFIX}rows) select id as job from rows group by id"
    steps = (ROWS, Step("grouped", sql, {"job": "bigint"}))
    body = f"with jobs as (select * from {PREFIX}grouped) select * from jobs"
    rest, written = kept(with_steps(body, {step.name: step for step in steps}), steps, set())
    assert rest == (
        f'with {PREFIX}grouped as not materialized (from temp.main."grouped"),\n'
        f"jobs as (select * from {PREFIX}grouped) select * from jobs"
    )
    assert written == {"grouped": f"-- Kept: by job.\nwith {ROWS.text}rows as{sql.partition('rows as')[2]}"}


def test_one_of_the_sets_of_tables_is_enough_and_all_of_its_tables_are_needed() -> None:
    either = (("a", "b"), ("c",))
    assert [is_empty(either, empty) for empty in ({"a"}, {"a", "b"}, {"c", "d"}, set())] == [False, True, True, False]
    assert not is_empty((), {"a"})


def test_every_model_can_be_reported_to_be_empty_from_its_inputs() -> None:
    for model in shipped_plan().models:
        assert model.empty_without or model.name == "silver_gpu_models", model.name  # the catalogue always has rows
        assert {table for tables in model.empty_without for table in tables} <= {*model.depends_on, *model.sources}


@pytest.mark.slow
def test_without_the_tables_that_are_named_no_model_and_no_step_has_a_row(rich_copy: Config) -> None:
    plan, lake = shipped_plan(), Lake(rich_copy)
    steps = {step.name: step for step in plan.steps}
    queries = [(model.name, model.sql, model.empty_without) for model in plan.models]
    for step in plan.steps:
        sql = with_steps(f"with step as (select * from {PREFIX}{step.name}) select * from step", steps)
        queries.append((step.name, sql, step.empty_without))
    with lake.writing(), lake.stage("emptied", lake.builds.current()) as staging:
        write_settings(staging.connection, rich_copy)
        for table in _emptied(staging):
            assert table
        for named, sql, empty_without in queries:
            for tables in empty_without:
                one_of = re.compile(rf'"(?:lake|landed)"\."main"\."({"|".join(tables)})"')
                rows = staging.read(one_of.sub(r'"none"."main"."\1"', f"SELECT count(*) AS n FROM ({sql})"))
                assert rows["n"].to_pylist() == [0], (named, tables)


def _emptied(staging: Staging) -> Iterator[str]:
    """Every table once more, without rows."""
    staging.connection.execute("ATTACH ':memory:' AS none")
    for database in ("lake", "landed"):
        found = staging.read(f"SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = '{database}'")
        for table in found["table_name"].to_pylist():
            rows = f"FROM {database}.main.{name(table)} WHERE false"
            staging.connection.execute(f"CREATE OR REPLACE TABLE none.main.{name(table)} AS {rows}")
            yield table


@pytest.mark.slow
def test_a_build_from_pruned_sql_has_the_rows_of_the_whole(tmp_path: Path) -> None:
    lake = built_from(
        tmp_path,
        {
            "pai_job_table.csv": "a,i1,u,Terminated,1000.0,2000.0\nb,i2,u,Failed,1500.0,9000.0\n",
            "pai_task_table.csv": "a,worker,1,Terminated,1000.0,2000.0,600,29.3,100,V100\n",
        },
    )
    plan = shipped_plan()
    with lake.writing(), lake.stage("whole") as staging:
        write_settings(staging.connection, lake.config)
        staging.connection.execute(f"ATTACH '{lake.builds.current()}' AS built (READ_ONLY)")
        filled = set()
        for model in plan.models:
            staging.connection.execute(f'CREATE TABLE "lake"."main"."{model.name}" AS {model.sql}')
            both = [
                staging.read(f"SELECT * FROM {database}.main.{model.name} ORDER BY ALL").to_pylist()
                for database in ("built", "lake")
            ]
            assert both[0] == both[1], model.name
            filled |= {model.name} if both[0] else set()
    assert filled >= {"silver_jobs", "silver_tasks", "silver_clusters", "gold_jobs_daily", "gold_demand_hourly"}
