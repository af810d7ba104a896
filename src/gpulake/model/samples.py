"""One more day of telemetry: of tables of samples, rebuild the new rows and the neighbours that they change.

What a sample stands for depends on the samples around it: the next one, and the usual interval of the eleven around it.
So the rows that are replaced reach so many rows beyond the new ones, and the rows that are read so many beyond those.
Which rows the new files have, the model says of them alone. Of old files only the hours that are needed are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpulake.core.tables import bronze_tables
from gpulake.lake.engine import Connection, surrogate_key, text
from gpulake.model.plan import PlannedModel

# Six would do: a new row changes the interval of the one before it, and that the median of the five before that.
NEIGHBOURS = 12
PAGES = "bronze_prometheus_samples"
PAGE = "(file, coalesce(folder, ''), file_at)"
MOST_FILES = 1000  # in a list of names
FINAL = "select * from final"
HOUR = "CAST(floor(epoch({}) / 3600) AS BIGINT)"


@dataclass(frozen=True)
class Samples:
    """A table of samples in the making. `name` is its model."""

    connection: Connection
    model: PlannedModel
    horizon: str | None = None  # SQL of an instant: rows before it are rolled up, and stay as they are

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def _entry(self) -> Mapping[str, Any]:
        return self.model.increment["samples"]  # type: ignore[no-any-return]

    @property
    def series(self) -> str:
        return surrogate_key(self._entry["series"])

    @property
    def subject(self) -> str:
        """What is replaced together."""
        return surrogate_key(self._entry.get("subject", self._entry["series"]))

    def find_touched(self) -> bool:
        """Tables touched.<model>_new, of the hours that have new rows; touched.<model>, of the time that is replaced of
        each subject; touched.<model>_days, of the days in it. False: there are no new rows."""
        columns = {column.name for column in self.model.columns}
        others = "".join(f", {one}" for one in ("source", "node_id", "owner_kind") if one in columns)
        fresh = self._reading(lambda table: f"new.main.{table}")
        if rows := self._entry.get("rows"):
            fresh = f"{fresh.removesuffix(FINAL)}select * from {rows}"
        # By hours: a row for each sample would take as much memory as the new files.
        self._run(
            f"CREATE TABLE touched.{self.name}_new AS"
            f" SELECT {self.subject} AS subject, {self.series} AS series, {HOUR.format('sampled_at')} AS hour{others},"
            f" min(sampled_at) AS lo, max(sampled_at) AS hi FROM ({fresh}) GROUP BY ALL"
        )
        spans = f"SELECT subject, min(lo) AS lo, max(hi) AS hi FROM touched.{self.name}_new GROUP BY 1"
        self._run(f"CREATE TABLE touched.{self.name} AS {self._widened(spans)}")
        return bool(self._value(f"SELECT count(*) FROM touched.{self.name}"))

    def rebuild(self) -> None:
        read = f"touched.{self.name}_read"
        self._run(f"CREATE TABLE {read} AS {self._widened(f'FROM touched.{self.name}')}")
        moments = [
            f"SELECT sampled_at FROM was.{self.name} AS old JOIN {read} AS spans"
            f" ON {self.subject} = spans.subject AND old.sampled_at BETWEEN spans.lo AND spans.hi",
            f"SELECT lo FROM touched.{self.name}_new",
        ]
        if also := self._entry.get("also"):
            moments.append(f"({also})")
        hour = HOUR.format("sampled_at")
        rows = " UNION ALL ".join(moments)
        self._run(f"CREATE TABLE touched.{self.name}_hours AS SELECT DISTINCT {hour} AS hour FROM ({rows})")
        self._run(
            f"DELETE FROM lake.main.{self.name} AS rows USING touched.{self.name} AS spans WHERE {self.is_touched}"
        )
        self._run(
            f"INSERT INTO lake.main.{self.name} SELECT rows.* FROM ({self._reading(self._old_and_new)}) AS rows"
            f" SEMI JOIN touched.{self.name} AS spans ON {self.is_touched}"
        )

    def note_days(self) -> None:
        """The days of machines. A sample may stand for two hours: those before midnight are of the next day, too."""
        machine = "rows.machine_key" if "machine_key" in {column.name for column in self.model.columns} else "NULL"
        rows = " UNION ".join(
            f"SELECT rows.cluster_id, {machine} AS machine_key, sampled_at FROM {catalogue}.main.{self.name} AS rows"
            f" SEMI JOIN touched.{self.name} AS spans ON {self.is_touched}"
            for catalogue in ("was", "lake")
        )
        quarter = "to_timestamp(floor(epoch(sampled_at) / 900) * 900)"
        self._run(
            f"CREATE TABLE touched.{self.name}_days AS"
            f" WITH quarters AS (SELECT DISTINCT cluster_id, machine_key, {quarter} AS quarter FROM ({rows})),"
            " zoned AS (SELECT quarters.*, coalesce(time_zone, 'UTC') AS zone FROM quarters"
            "   LEFT JOIN landed.main.known_clusters AS known ON quarters.cluster_id = known.cluster_id),"
            " days AS (SELECT DISTINCT cluster_id, machine_key, zone,"
            "   CAST(timezone(zone, quarter + step) AS DATE) AS dt FROM zoned"
            "   CROSS JOIN (VALUES (INTERVAL 0 HOURS), (INTERVAL 135 MINUTES)) AS steps(step))"
            " SELECT cluster_id, machine_key, dt, timezone(zone, CAST(dt AS TIMESTAMP)) - INTERVAL 3 HOURS AS from_at,"
            " timezone(zone, CAST(dt + 1 AS TIMESTAMP)) AS until_at FROM days"
        )

    def note_no_days(self) -> None:
        """The same, of a table that has no rows."""
        columns = "cluster_id VARCHAR, machine_key BIGINT, dt DATE, from_at TIMESTAMPTZ, until_at TIMESTAMPTZ"
        self._run(f"CREATE TABLE touched.{self.name}_days ({columns})")

    @property
    def is_touched(self) -> str:
        """Of rows and spans. The bounds of all spans as well, so that the engine passes over the rest."""
        low, high = self._bounds
        return (
            f"{self.subject} = spans.subject AND sampled_at BETWEEN spans.lo AND spans.hi"
            f" AND sampled_at BETWEEN {low} AND {high}" + (f" AND sampled_at >= {self.horizon}" if self.horizon else "")
        )

    @property
    def rows_made(self) -> str:
        """The rows of all the time in which some were replaced."""
        low, high = self._bounds
        return f"(FROM lake.main.{self.name} WHERE sampled_at BETWEEN {low} AND {high})"

    @property
    def _bounds(self) -> tuple[str, str]:
        bounds = f"SELECT min(lo)::VARCHAR, max(hi)::VARCHAR FROM touched.{self.name}"
        low, high = self.connection.execute(bounds).fetchall()[0]
        return f"'{low or 'infinity'}'::TIMESTAMPTZ", f"'{high or '-infinity'}'::TIMESTAMPTZ"

    def _widened(self, spans: str) -> str:
        """The spans, with the neighbours in the last build on either side of them."""
        reach = int(self._entry.get("reach_seconds", 0))
        several = (
            f"SELECT subject FROM (SELECT {self.subject} AS subject, source FROM was.{self.name}"
            f" UNION ALL SELECT subject, source FROM touched.{self.name}_new)"
            " GROUP BY subject HAVING count(DISTINCT source) > 1"
        )
        margin = f"CASE WHEN subject IN ({several}) THEN INTERVAL {reach} SECONDS ELSE INTERVAL 0 SECONDS END"
        wide = f"SELECT subject, lo - {margin} AS lo, hi + {margin} AS hi FROM spans" if reach else "FROM spans"
        return (
            f"WITH spans AS ({spans}), wide AS ({wide}),"
            f" near AS (SELECT {self.subject} AS subject, {self.series} AS series, sampled_at FROM was.{self.name}),"
            " sides AS (SELECT near.subject, near.series,"
            f"   list_min(max(sampled_at, {NEIGHBOURS}) FILTER (sampled_at < lo)) AS lo,"
            f"   list_max(min(sampled_at, {NEIGHBOURS}) FILTER (sampled_at > hi)) AS hi"
            "   FROM near JOIN wide ON near.subject = wide.subject GROUP BY ALL)"
            " SELECT wide.subject, least(any_value(wide.lo), min(sides.lo)) AS lo,"
            " greatest(any_value(wide.hi), max(sides.hi)) AS hi"
            " FROM wide LEFT JOIN sides ON wide.subject = sides.subject GROUP BY wide.subject"
        )

    def _old_and_new(self, table: str) -> str:
        """The rows of the hours that are needed, old and new; of pages, whole pages."""
        hours = f"(SELECT hour FROM touched.{self.name}_hours)"
        if "ts_ms" not in {column.name for column in bronze_tables()[table].columns}:
            return f"landed.main.{table}"
        first, last = self.connection.execute(f"SELECT min(hour), max(hour) FROM touched.{self.name}_hours").fetchall()[
            0
        ]
        if table != PAGES:
            bounds = f"ts_ms BETWEEN {first * 3_600_000} AND {(last + 1) * 3_600_000}"
            return f"(FROM landed.main.{table} WHERE {bounds} AND CAST(floor(ts_ms / 3600000) AS BIGINT) IN {hours})"
        return f"(FROM landed.main.{table} WHERE {self._is_of_pages(first, last)})"

    def _is_of_pages(self, first: int, last: int) -> str:
        """Which rows are of pages that have some of these hours, as tables and literals: the model reads them often."""
        hours = f"(SELECT hour FROM touched.{self.name}_hours)"
        within = f"ts_ms BETWEEN {first * 3_600_000} AND {(last + 1) * 3_600_000}"
        page = "SELECT DISTINCT file, coalesce(folder, '') AS folder, file_at"
        own = (
            f"{page} FROM landed.main.{PAGES} WHERE {within} AND {HOUR.format('to_timestamp(ts_ms / 1000)')} IN {hours}"
        )
        # Of samples without a time, the page's clock is asked; the same for every table of samples.
        clock = "max(value) FILTER (metric = 'node_time_seconds' AND value BETWEEN 0 AND 4102444800)"
        hour = HOUR.format(f"coalesce(to_timestamp({clock}), file_at)")
        self._run(
            f"CREATE TABLE IF NOT EXISTS touched.page_hours AS SELECT file, coalesce(folder, '') AS folder, file_at,"
            f" {hour} AS hour FROM landed.main.{PAGES} WHERE {PAGE} IN"
            f" (SELECT {PAGE} FROM landed.main.{PAGES} WHERE ts_ms IS NULL) GROUP BY 1, 2, 3"
        )
        pages = f"touched.{self.name}_pages"
        self._run(
            f"CREATE OR REPLACE TABLE {pages} AS {own} UNION {page} FROM touched.page_hours WHERE hour IN {hours}"
        )
        files = self.connection.execute(f"SELECT DISTINCT file FROM {pages}").fetchall()
        # The engine passes over files that have none of few names.
        named = f"file IN ({', '.join(text(file) for (file,) in files)}) AND " if 0 < len(files) <= MOST_FILES else ""
        # What a page says of its node and its clock counts for all its rows.
        own_time = f"(ts_ms IS NULL OR {within} OR metric IN ('node_uname_info', 'node_time_seconds'))"
        return f"{named}{own_time} AND {PAGE} IN (FROM {pages})"

    def _reading(self, rows_of: Callable[[str], str]) -> str:
        """The SQL of the model on other rows of its bronze tables."""
        sql = self.model.sql
        for table in set(self.model.sources) & bronze_tables().keys():
            sql = sql.replace(f'"landed"."main"."{table}"', rows_of(table))
        return sql

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)

    def _value(self, sql: str) -> Any:
        return self.connection.execute(sql).fetchall()[0][0]
