"""One more day: in a copy of the last build, rebuild what the new files touch.

The SQL of a model is run as it is, on narrowed inputs: the jobs, the workers or the days that the new files touch. What
it gives takes the place of the rows that were there. That a build made step by step equals one made at once is tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.tables import bronze_tables
from gpulake.lake import Staging
from gpulake.lake.engine import text
from gpulake.model.plan import Plan, PlannedModel, PlannedTest

# The job, the worker and the cluster of a row, as the models key them.
JOB = 'cast(hash("job_name") >> 1 as bigint)'
WORKER = 'cast(hash("worker_name") >> 1 as bigint)'
CLUSTER = "CASE WHEN job_name LIKE 'synth-%' THEN 'synth' ELSE 'pai' END"
JOB_TABLES = ("bronze_job_events", "bronze_task_table", "bronze_instance_table")
TAGS, SENSORS, METRICS = "bronze_group_tag_table", "bronze_sensor_table", "bronze_machine_metrics"
# Files of other tables may touch anything.
EXTENDABLE = (*JOB_TABLES, TAGS, SENSORS, METRICS)
# A build that touches more of the days than this is made at once.
MOST_DAYS_RATIO = 0.5
# What a scope touches: the table that names it, and its columns, which all models of the scope have.
SCOPES = {
    "job": ("jobs", "job_key"),
    "holding": ("holders", "job_key"),
    "worker": ("workers", "worker_key"),
    "machine": ("machine_days", "cluster_id, machine_key, dt"),
    "day": ("days", "cluster_id, dt"),
}

NewFiles = Mapping[str, Sequence[Path]]


@dataclass(frozen=True)
class Touched:
    touched_jobs: int
    touched_days: int
    late_attempts: int


class TouchesTooMuchError(Exception):
    """Not worth, or not possible, to extend the last build; build at once instead."""


class Increment:
    def __init__(self, staging: Staging, plan: Plan, new_files: NewFiles) -> None:
        self.connection = staging.connection
        self.plan = plan
        self.new_files = {table: files for table, files in new_files.items() if files}
        self._run("ATTACH ':memory:' AS touched")
        for scope in SCOPES:
            self._run(f"CREATE SCHEMA touched.{scope}")

    def build(self) -> Touched:
        if strange := sorted(set(self.new_files) - set(EXTENDABLE)):
            raise TouchesTooMuchError(f"new files in {', '.join(strange)}")
        if self._number(f"FROM {self._new(METRICS)} WHERE worker_name IS NULL", "count"):
            raise TouchesTooMuchError("windows of no worker")
        self._remember()
        self._narrow_bronze()
        self._narrow_silver()
        early, late = self._phases()
        for model in early:
            self._build(model)
        self._find_days()
        self._narrow_days()
        for model in late:
            self._build(model)
            if model.name == "silver_outages":
                self._add_days_of_outages()
        return Touched(
            self._number("SELECT count(*) FROM touched.main.holders"),
            self._number("SELECT count(*) FROM touched.main.days"),
            self._late_attempts(),
        )

    def narrowed(self, test: PlannedTest, sql: str) -> str:
        """The SQL of a data test, or of many of its table, asking only about the rows that this build made."""
        scope = next(model.scope for model in self.plan.models if model.name == test.table)
        return sql if scope == "whole" else self._on_narrowed(sql, scope, test.depends_on)

    def _phases(self) -> tuple[list[PlannedModel], list[PlannedModel]]:
        """Models that no day bears on, and the others: which days are touched is known only in between."""
        late: list[PlannedModel] = []
        for model in self.plan.models:
            if model.scope in ("day", "machine") or any(
                needed in {each.name for each in late} for needed in model.depends_on
            ):
                late.append(model)
        return [model for model in self.plan.models if model not in late], late

    def _build(self, model: PlannedModel) -> None:
        target = f'"lake"."main"."{model.name}"'
        if model.scope == "whole":
            self._run(f"CREATE OR REPLACE TABLE {target} AS {model.sql}")
            return
        sql = self._on_narrowed(model.sql, model.scope, model.depends_on)
        self._run(f"CREATE OR REPLACE TEMP TABLE fresh AS {sql}")
        table, columns = SCOPES[model.scope]
        self._run(f"DELETE FROM {target} WHERE ({columns}) IN (SELECT {columns} FROM touched.main.{table})")
        self._run(f"INSERT INTO {target} FROM fresh SEMI JOIN touched.main.{table} USING ({columns})")

    def _on_narrowed(self, sql: str, scope: str, needed: Sequence[str]) -> str:
        found = self.connection.execute(
            f"SELECT view_name FROM duckdb_views() WHERE database_name = 'touched' AND schema_name = {text(scope)}"
        )
        narrowed = {name for (name,) in found.fetchall()}
        for name in narrowed.intersection(bronze_tables()):
            sql = sql.replace(f'"landed"."main"."{name}"', f'touched.{scope}."{name}"')
        for name in narrowed.intersection(needed):
            sql = sql.replace(f'"lake"."main"."{name}"', f'touched.{scope}."{name}"')
        return sql

    def _remember(self) -> None:
        """What the last build says, before it is overwritten."""
        for table in ("silver_clusters", "silver_capacity", "silver_outages"):
            self._run(f"CREATE TABLE touched.main.old_{table} AS FROM lake.main.{table}")

    def _new(self, table: str) -> str:
        """The rows of a table's new files."""
        files = self.new_files.get(table, ())
        if not files:
            return f"(FROM landed.main.{table} WHERE false)"
        return f"read_parquet([{', '.join(text(str(file)) for file in files)}], hive_partitioning = false)"

    def _narrow_bronze(self) -> None:
        jobs = " UNION ".join(f"SELECT {JOB} AS job_key FROM {self._new(table)}" for table in JOB_TABLES)
        if TAGS in self.new_files:
            tagged = f"SELECT inst_id FROM {self._new(TAGS)}"
            jobs += f" UNION SELECT {JOB} FROM landed.main.bronze_job_events WHERE inst_id IN ({tagged})"
        self._run(f"CREATE TABLE touched.main.jobs AS {jobs}")
        workers = " UNION ".join(
            f"SELECT {WORKER} AS worker_key FROM {self._new(table)}" for table in (SENSORS, METRICS)
        )
        self._run(f"CREATE TABLE touched.main.workers AS {workers}")
        # A sensor, or a window, that comes late changes what is known of its attempt; the end of the time under
        # observation, where it moves, what is counted of those that reach it.
        self._run(
            "CREATE TABLE touched.main.holders AS FROM touched.main.jobs UNION"
            " SELECT job_key FROM lake.main.silver_instances WHERE worker_key IN (FROM touched.main.workers)"
            " UNION SELECT job_key FROM lake.main.silver_holdings JOIN lake.main.silver_clusters USING (cluster_id)"
            " WHERE held_until >= observed_until"
        )
        # The old files are read again only for what they know of already.
        is_known = any(
            self._number(f"FROM touched.main.jobs SEMI JOIN lake.main.{table} USING (job_key)", "count")
            for table in ("silver_jobs", "silver_tasks", "silver_instances")
        )
        for table in JOB_TABLES:
            self._view_rows("job", table, f"{JOB} IN (FROM touched.main.jobs)" if is_known else "")
        self._view_rows("job", TAGS, "inst_id IN (SELECT inst_id FROM touched.job.bronze_job_events)")
        for table, model in ((SENSORS, "silver_instance_usage"), (METRICS, "silver_gpu_timeseries")):
            known = self._number(f"FROM touched.main.workers SEMI JOIN lake.main.{model} USING (worker_key)", "count")
            self._view_rows("worker", table, f"{WORKER} IN (FROM touched.main.workers)" if known else "")
        # What other sources say is in the build already.
        for table in set(bronze_tables()) - {*EXTENDABLE, "bronze_machine_spec", "bronze_gpu_specs"}:
            self._run(f"CREATE VIEW touched.job.{table} AS FROM landed.main.{table} WHERE false")

    def _view_rows(self, scope: str, table: str, condition: str) -> None:
        """The rows of all files that meet the condition, or all those of the new files."""
        rows = f"landed.main.{table} WHERE {condition}" if condition else self._new(table)
        self._run(f"CREATE VIEW touched.{scope}.{table} AS FROM {rows}")

    def _narrow_silver(self) -> None:
        for table in ("silver_jobs", "silver_tasks", "silver_instances", "silver_holdings"):
            for scope in ("job", "holding"):
                self._view(scope, table, f"job_key IN (FROM touched.main.{SCOPES[scope][0]})")
        self._view("holding", "gold_job_efficiency_daily", "job_key IN (FROM touched.main.holders)")
        for table in ("silver_instance_usage", "silver_gpu_timeseries"):
            self._view("worker", table, "worker_key IN (FROM touched.main.workers)")
        times = "from_at TIMESTAMPTZ, until_at TIMESTAMPTZ"
        self._run(f"CREATE TABLE touched.main.spans (cluster_id VARCHAR, {times})")
        self._run(f"CREATE TABLE touched.main.machine_spans (cluster_id VARCHAR, machine_key BIGINT, {times})")
        self._add_spans()

    def _view(self, scope: str, table: str, condition: str) -> None:
        self._run(f"CREATE VIEW touched.{scope}.{table} AS FROM lake.main.{table} WHERE {condition}")

    def _add_spans(self) -> None:
        """The times that the rows of touched jobs bear on: as they were, and later as they are."""
        holders = "job_key IN (FROM touched.main.holders)"
        self._run(
            "INSERT INTO touched.main.spans SELECT DISTINCT cluster_id, ended_at, ended_at"
            f" FROM lake.main.silver_jobs WHERE {holders} AND ended_at IS NOT NULL"
        )
        for table, from_at, until_at in (
            ("silver_holdings", "held_from", "held_until"),
            ("silver_instances", "started_at", "started_at"),
            ("silver_instances", "ended_at", "ended_at"),
        ):
            self._run(
                f"INSERT INTO touched.main.machine_spans SELECT DISTINCT cluster_id, machine_key, {from_at}, {until_at}"
                f" FROM lake.main.{table} WHERE {holders} AND {from_at} IS NOT NULL"
            )

    def _find_days(self) -> None:
        self._refuse_other_times()
        self._refuse_new_capacity()
        self._add_spans()
        self._run(
            "INSERT INTO touched.main.machine_spans SELECT cluster_id, machine_key, window_started_at, window_ended_at"
            " FROM lake.main.silver_gpu_timeseries WHERE worker_key IN (FROM touched.main.workers)"
        )
        # Where the edges of the time under observation move, they do so for every machine.
        edges = " UNION ALL ".join(
            f"SELECT cluster_id, least(was.{edge}, now.{edge}) AS from_at, greatest(was.{edge}, now.{edge}) AS until_at"
            " FROM lake.main.silver_clusters AS now JOIN touched.main.old_silver_clusters AS was USING (cluster_id)"
            for edge in ("observed_from", "observed_until")
        )
        machines = " UNION ".join(
            f"SELECT cluster_id, machine_key FROM lake.main.{table}"
            for table in ("silver_held_hours", "silver_capacity")
        )
        self._run(
            "INSERT INTO touched.main.machine_spans SELECT cluster_id, machine_key, from_at, until_at"
            f" FROM ({edges}) JOIN ({machines}) USING (cluster_id)"
        )
        overlap = (
            " JOIN lake.main.silver_days AS days ON spans.cluster_id = days.cluster_id"
            " AND spans.from_at < days.ended_at AND spans.until_at >= days.started_at"
        )
        self._run(
            "CREATE TABLE touched.main.machine_days AS SELECT DISTINCT days.cluster_id, spans.machine_key, days.dt,"
            f" days.started_at, days.ended_at FROM touched.main.machine_spans AS spans {overlap}"
        )
        self._run(
            "CREATE TABLE touched.main.days AS SELECT DISTINCT days.cluster_id, days.dt"
            f" FROM touched.main.spans AS spans {overlap} UNION SELECT cluster_id, dt FROM touched.main.machine_days"
        )
        touched = self._number("FROM touched.main.machine_days", "count")
        every = self._number("FROM lake.main.silver_days JOIN lake.main.silver_capacity USING (cluster_id)", "count")
        if touched > MOST_DAYS_RATIO * every:
            raise TouchesTooMuchError(f"the new files touch {touched} of {every} days of a machine")

    def _late_attempts(self) -> int:
        """Those of the new files that speak of a time that had been built already."""
        return self._number(
            f"FROM {self._new('bronze_instance_table')} AS rows JOIN touched.main.old_silver_clusters AS built"
            f" ON built.cluster_id = {CLUSTER}"
            " AND coalesce(rows.end_time, rows.start_time) < epoch(built.observed_until)",
            "count",
        )

    def _refuse_other_times(self) -> None:
        """A cluster that is new, or observed for less time, touches what no row of the new files speaks of."""
        if self._number(
            "FROM lake.main.silver_clusters AS now FULL JOIN touched.main.old_silver_clusters AS was USING (cluster_id)"
            " WHERE was.cluster_id IS NULL OR now.cluster_id IS NULL OR now.observed_until < was.observed_until"
            " OR now.observed_from > was.observed_from OR now.hour_shift_seconds != was.hour_shift_seconds"
            " OR (now.unknown_demand_ratio > 0.5) != (was.unknown_demand_ratio > 0.5)",
            "count",
        ):
            raise TouchesTooMuchError("the time under observation is not what it was")

    def _refuse_new_capacity(self) -> None:
        if self._number(f"FROM {_changed('silver_capacity')}", "count"):
            raise TouchesTooMuchError("the capacity is not what it was")

    def _narrow_days(self) -> None:
        for table in ("silver_days", "silver_hours"):
            self._semi(
                "machine", table, "(SELECT DISTINCT cluster_id, dt FROM touched.main.machine_days)", "cluster_id, dt"
            )
        for model in self.plan.models:
            has = {column.name for column in model.columns}
            if {"cluster_id", "dt"} <= has:
                self._semi("day", model.name, "touched.main.days", "cluster_id, dt")
            if model.scope == "machine":
                self._semi("machine", model.name, "touched.main.machine_days", "cluster_id, machine_key, dt")
        for table, from_at, until_at in (
            ("silver_holdings", "held_from", "held_until"),
            ("silver_gpu_timeseries", "window_started_at", "window_ended_at"),
        ):
            self._run(
                f"CREATE VIEW touched.machine.{table} AS FROM lake.main.{table} AS rows SEMI JOIN"
                " touched.main.machine_days AS days ON rows.cluster_id = days.cluster_id"
                " AND rows.machine_key = days.machine_key"
                f" AND rows.{from_at} < days.ended_at AND rows.{until_at} >= days.started_at"
            )
        self._set_range()
        within = "{0} BETWEEN (SELECT from_at FROM touched.main.range) AND (SELECT until_at FROM touched.main.range)"
        self._view("machine", "silver_instances", f"{within.format('started_at')} OR {within.format('ended_at')}")
        ended = f"SELECT job_key FROM lake.main.silver_jobs WHERE {within.format('ended_at')}"
        overlaps = "{0} < (SELECT until_at FROM touched.main.range) AND {1} >= (SELECT from_at FROM touched.main.range)"
        self._view("day", "silver_holdings", f"{overlaps.format('held_from', 'held_until')} OR job_key IN ({ended})")

    def _semi(self, scope: str, table: str, touched: str, columns: str) -> None:
        self._run(
            f"CREATE VIEW touched.{scope}.{table} AS FROM lake.main.{table} SEMI JOIN {touched} USING ({columns})"
        )

    def _set_range(self) -> None:
        self._run(
            "CREATE OR REPLACE TABLE touched.main.range AS SELECT min(started_at) AS from_at, max(ended_at) AS until_at"
            " FROM lake.main.silver_days SEMI JOIN touched.main.days USING (cluster_id, dt)"
        )

    def _add_days_of_outages(self) -> None:
        """A machine that is now known to have been down, or not to have been, changes the days that this was."""
        self._run(
            "CREATE TABLE touched.main.changed AS"
            " SELECT DISTINCT days.cluster_id, spans.machine_key, days.dt, days.started_at, days.ended_at"
            f" FROM {_changed('silver_outages')} AS spans"
            " JOIN lake.main.silver_days AS days ON spans.cluster_id = days.cluster_id"
            " AND spans.started_at < days.ended_at AND spans.ended_at > days.started_at"
        )
        for table in ("machine_days", "days"):
            columns = "cluster_id, dt" if table == "days" else "*"
            self._run(
                f"INSERT INTO touched.main.{table} SELECT DISTINCT {columns} FROM touched.main.changed"
                f" EXCEPT FROM touched.main.{table}"
            )
        self._set_range()

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)

    def _number(self, query: str, aggregate: str = "") -> int:
        row = self.connection.execute(f"SELECT {aggregate}(*) {query}" if aggregate else query).fetchone()
        return int(row[0]) if row else 0


def _changed(table: str) -> str:
    """The rows of a remembered table that are not as they were: gone, or new."""
    now, was = f"FROM lake.main.{table}", f"FROM touched.main.old_{table}"
    return f"(({now} EXCEPT {was}) UNION ALL ({was} EXCEPT {now}))"
