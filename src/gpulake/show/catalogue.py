"""What tables there are: grain, columns, units, rows and freshness."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from gpulake.core.tables import Table
from gpulake.lake import LakeReader

LAYERS = ("bronze", "silver", "gold")
BRONZE = """
SELECT
    "table" AS name, sum(rows_landed) AS rows, sum(rows_quarantined) AS rows_quarantined, max(landed_at) AS fresh_at
FROM (SELECT DISTINCT ON (file) * FROM landings WHERE is_live ORDER BY landed_at)
GROUP BY "table"
ORDER BY "table"
"""


@dataclass(frozen=True)
class TableInfo:
    table: Table
    rows: int | None = None  # None: not there yet
    fresh_at: datetime | None = None

    @property
    def layer(self) -> str:
        return next((layer for layer in LAYERS if self.table.name.startswith(f"{layer}_")), "journal")


def table_infos(reader: LakeReader, tables: Iterable[Table]) -> list[TableInfo]:
    """The known tables as they are in this lake: bronze first, the journal last."""
    infos = {table.name: TableInfo(table) for table in tables}
    built = reader.counts()
    made = reader.rows('SELECT "table", built_at FROM table_builds') if built else []
    built_at = {row["table"]: row["built_at"] for row in made}
    for name, rows in built.items():
        if name in infos:
            infos[name] = replace(infos[name], rows=rows, fresh_at=built_at.get(name))
    for row in reader.rows(BRONZE):
        infos[row["name"]] = replace(infos[row["name"]], rows=int(row["rows"]), fresh_at=row["fresh_at"])
    for name in ("landings", "nudges", "quarantine", "runs", "test_results"):
        count = reader.rows(f"SELECT count(*) AS rows FROM {name}")[0]["rows"]
        infos[name] = replace(infos[name], rows=count)
    order = (*LAYERS, "journal")
    return sorted(infos.values(), key=lambda info: (order.index(info.layer), info.table.name))
