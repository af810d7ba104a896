"""Rows of a build that no longer follow from what landed: samples rolled up, and past days that were made of them.

A rolled-up sample stands for the samples of one minute or hour that agree in all that they name (GPU, source, owner,
evidence and so on) and lie between the same begins and ends of attempts on their machine. What it covers and the energy
are sums, so that sums over attempts, owners and hours stay as they were; counters are the last; other values are
means, weighted by the time that samples cover. Its time is that of the first of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpulake.core.retention_settings import SAMPLE_TABLES
from gpulake.lake import Lake
from gpulake.lake.archive import Archive, State
from gpulake.lake.engine import Connection, name
from gpulake.model.plan import PlannedModel

# Tables with days, made of single samples; what is made of these in turn follows from them. Utilisation has CPUs, too.
DAILY = (
    *("gold_cluster_util_daily", "gold_cluster_util_hourly"),
    *("silver_gpu_hours", "silver_excess_hours", "gold_hot_gpus_daily", "gold_throttled_gpus_daily"),
    *("gold_idle_gpus_daily", "gold_gpu_errors_daily"),
)
NODES = "silver_nodes"  # those that only samples name
_NAMES = re.compile(r"machine_key|gpu_index|(parent_)?pid|started_at")
_SUMS = re.compile(r"covers_seconds|(unseen_)?energy_joules|implausible_values|cpu_seconds|interval_seconds")
_LAST = re.compile(r".*_total|remapped_rows_.*|last_xid|pcie_link_.*|nvlink_links_active|memory_total_bytes")
_BITS = "clock_event_reasons"
SEGMENTED = ("silver_gpu_samples",)  # tables whose samples are counted for attempts
# A sample without this value covers no time of it.
COUNTED = {"silver_gpu_samples": "busy_ratio", "silver_host_samples": "cpu_busy_ratio"}
LAST_OF_OWNER = (
    "sampled_at = max(sampled_at) OVER (PARTITION BY cluster_id, owner_kind, coalesce(owner_id, owner_kind)) AS is_last"
)
# A sample that reaches over an edge counts for each side in part. The last of an owner, and those before a gap of the
# energy counter, have a time that tables show.
ALONE = (
    "rows.sampled_at + to_microseconds(CAST(rows.covers_seconds * 1e6 AS BIGINT)) > later.edge_at"
    " OR rows.is_last OR rows.unseen_energy_joules > 0"
)


def rolled_up(model: PlannedModel, rows: str, seconds: int, build: str) -> str:
    """The query of the rolled-up rows."""
    columns, keys = [], ["bucket"]
    for column in model.columns:
        value = f"rows.{name(column.name)}"
        if column.name == "sampled_at":
            columns.append(f"min({value}) AS sampled_at")
        elif column.type in ("varchar", "boolean") or _NAMES.fullmatch(column.name):
            keys.append(value)
            columns.append(value)
        else:
            columns.append(f"CAST({_merged(column.name, value)} AS {column.type}) AS {name(column.name)}")
    source = f"(SELECT *, floor(epoch(sampled_at) / {seconds}) AS bucket FROM {rows}) AS rows"
    if model.name in COUNTED:
        keys.append(f"rows.{COUNTED[model.name]} IS NULL")
    if model.name in SEGMENTED:
        source = source.replace("*,", f"*, {LAST_OF_OWNER},")
        keys += ["edges.edge_at", f"CASE WHEN {ALONE} THEN rows.sampled_at END"]
        for edges, order in (("edges", ">="), ("later", "<")):
            source += f" ASOF LEFT JOIN ({_edges(build)}) AS {edges}"
            source += f" ON rows.machine_key = {edges}.machine_key AND rows.sampled_at {order} {edges}.edge_at"
    return f"SELECT {', '.join(columns)} FROM {source} GROUP BY {', '.join(keys)}"


def _edges(build: str) -> str:
    both = (
        f"SELECT machine_key, {edge} AS edge_at FROM {build}.silver_instances" for edge in ("started_at", "ended_at")
    )
    return f"SELECT DISTINCT * FROM ({' UNION ALL '.join(both)}) WHERE edge_at IS NOT NULL AND machine_key IS NOT NULL"


def _merged(column: str, value: str) -> str:
    if _SUMS.fullmatch(column):
        return f"sum({value})"
    if _LAST.fullmatch(column):
        return f"arg_max({value}, rows.sampled_at)"
    if column == _BITS:
        return f"bit_or({value})"
    known = f"FILTER (WHERE {value} IS NOT NULL)"
    weighted = f"sum({value} * rows.covers_seconds) {known} / nullif(sum(rows.covers_seconds) {known}, 0)"
    return f"coalesce({weighted}, avg({value}))"


@dataclass(frozen=True)
class Retained:
    """Puts the rows of the archive in the place of those that a model makes of what is left."""

    archive: Archive
    state: State

    @classmethod
    def of(cls, lake: Lake) -> Retained:
        return cls(lake.archive, lake.archive.state())

    @property
    def frozen_before(self) -> str:
        return f"DATE '{self.state.frozen_before}'"

    def horizon(self, table: str) -> str | None:
        """As SQL: samples before it are rolled up."""
        found = self.state.horizon(table)
        return f"TIMESTAMPTZ '{found.isoformat()}'" if found else None

    def add(self, connection: Connection, model: PlannedModel, table: str = "") -> bool:
        """To the table that the model made, or another of its columns. False: there is nothing to add."""
        table = table or f'"lake"."main"."{model.name}"'
        if condition := self._is_past(model.name):
            connection.execute(f"DELETE FROM {table} WHERE {condition}")
        files = self.state.files(model.name)
        if files:
            where = f"WHERE {condition}" if condition else f"WHERE node_id NOT IN (SELECT node_id FROM {table})"
            self._insert(connection, model, table, files, where)
        return bool(files)

    def replace(self, connection: Connection, model: PlannedModel, fresh: str, keys: str, key: str) -> None:
        """The same, of the rows of keys only."""
        if model.name in DAILY and self.state.frozen_before:
            past = f"dt < {self.frozen_before}"
            connection.execute(f"DELETE FROM {fresh} WHERE {past}")
            files = self.state.files(model.name)
            if files:
                where = f"WHERE {past} AND ({key}) IN (SELECT {key} FROM {keys})"
                self._insert(connection, model, fresh, files, where)

    def _insert(self, connection: Connection, model: PlannedModel, table: str, files: list[str], where: str) -> None:
        rows = self.archive.rows(files)
        known = {str(row[0]) for row in connection.execute(f"DESCRIBE FROM {rows}").fetchall()}
        columns = ", ".join(name(column.name) for column in model.columns if column.name in known)
        connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns} FROM {rows} {where}")

    def _is_past(self, table: str) -> str | None:
        if table in SAMPLE_TABLES and (horizon := self.horizon(table)):
            return f"sampled_at < {horizon}"
        return f"dt < {self.frozen_before}" if table in DAILY and self.state.frozen_before else None
