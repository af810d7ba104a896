"""Compacting: after a landing or a build, bronze tables with many small files get larger ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING

from gpulake.core.errors import GpulakeError, LakeError
from gpulake.core.tables import bronze_tables, written_tables

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.lake import Lake


def compact(flow: Flow, tables: Iterable[str]) -> None:
    """The caller writes to the lake. What was landed or built holds, also where this fails."""
    from gpulake.lake.compaction import Storage
    from gpulake.lake.engine import lake_errors

    lake, at = flow.lake, flow.clock.now()
    known = cache(lambda: _build_inputs(lake))
    tables = {table for table in tables if table in bronze_tables()}
    storages = {table: lake.bronze.storage(table) for table in tables}
    storages["quarantine"] = Storage(written_tables()["quarantine"], lake.quarantine.folder, lake.staging)
    try:
        for table, storage in sorted(storages.items()):
            if not storage.is_due:
                continue
            with flow.step("compact") as detail, lake_errors(f"compacting {table}"):
                detail["table"] = table
                detail["files"] = storage.compact([file for one, file in known() if one == table], at)
    except LakeError as error:
        flow.notes.append(f"small files were not compacted: {error.message}")


def _build_inputs(lake: Lake) -> Collection[tuple[str, str]]:
    """Tables and files that the current build was made of."""
    try:
        with lake.reading() as reader:
            return [(row["table"], row["file"]) for row in reader.query("FROM build_inputs").to_pylist()]
    except GpulakeError:
        return ()  # there is none, or none that can be read: the next one is made whole
