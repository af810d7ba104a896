"""Rows that do not parse, kept with file, line and reason. Nothing is ever dropped silently."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.disk import sync
from gpulake.core.tables import written_tables
from gpulake.core.types import BadRow, Landing
from gpulake.lake import delta
from gpulake.lake.types import arrow_schema, delta_schema


@dataclass(frozen=True)
class Quarantine:
    """Committed before the rows that landed: a crash in between leaves rows of a content that readers do not see."""

    folder: Path

    def add(self, landing: Landing, bad: Sequence[BadRow], staging: Path) -> None:
        transaction = f"{landing.table}/{landing.source}#{landing.version}#{landing.sha256}"
        if not bad or delta.is_committed(self.folder, transaction):
            return
        table = written_tables()["quarantine"]
        rows = [
            {
                "source": landing.source,
                "sha256": landing.sha256,
                "table_name": landing.table,
                "line_number": row.line_number,
                "reason": row.reason,
                "row_text": row.text,
                "quarantined_at": landing.landed_at,
            }
            for row in bad
        ]
        path = staging / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(table)), path, compression="zstd")
        sync(path)
        delta.commit(
            self.folder,
            delta_schema(table),
            [delta.DataFile(path.name, len(rows), {})],
            transaction,
            {"source": landing.source, "rows": len(rows)},
            moved_from=staging,
        )
