"""Gold for other engines: a Delta table each, exported after the build is published. Each names the build it is of."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.exceptions import DeltaError

from gpulake.core.disk import make_folders, replace_text, sync
from gpulake.lake import delta
from gpulake.lake.builds import POINTER
from gpulake.lake.delta_log import LOG
from gpulake.lake.engine import Connection, name, row_counts, text

_PUBLISHED = "published"
PREFIX = "gold_"
PART_ROWS = 50_000  # at least, in each file of a table of days
SMALL_AT_ONCE = 4  # tables of fewer rows
# The first version of Parquet: the second one's encodings of differences make these files up to half as large again.
PARQUET_OPTIONS = (
    "FORMAT parquet, PARQUET_VERSION v1, COMPRESSION zstd, COMPRESSION_LEVEL 1,"
    " DICTIONARY_SIZE_LIMIT 100, WRITE_BLOOM_FILTER false, ROW_GROUP_SIZE 61440"
)
Days: TypeAlias = tuple[date, date]


@dataclass(frozen=True)
class Changes:
    """How a build differs from the one that it extends. Tables of which nothing is said may differ in every row."""

    base: Path
    unchanged: frozenset[str]
    days: Mapping[str, frozenset[date]]  # by table, those of which rows are other ones


@dataclass(frozen=True)
class Gold:
    """`CURRENT` is written last: it names the build that every table is of."""

    folder: Path

    def build(self, table: str) -> str:
        """The build whose rows other engines find in a table."""
        commits = delta.history(self.folder / table)
        return str(commits[-1]["build_id"]) if commits else ""

    def is_of(self, build: Path) -> bool:
        """Whether every table has been exported from this build."""
        try:
            return (self.folder / POINTER).read_bytes().strip() == build.stem.encode()
        except FileNotFoundError:
            return False

    def is_readable(self, table: str) -> bool:
        try:
            files = delta.live_files(self.folder / table)
            return bool(files) and all(pq.read_metadata(file).num_rows >= 0 for file in files)
        except (DeltaError, pa.ArrowException, OSError):
            return False

    def is_whole(self, build: Path, tables: Iterable[str]) -> bool:
        """Whether other engines can read all of these, and find this build in them."""
        return self.is_of(build) and all(self._is_of(table, build.stem) for table in tables)

    def export(self, connection: Connection, build: Path, changes: Changes | None = None) -> None:
        """Exports tables that are of another build or unreadable. Idempotent."""
        # After an interrupted export, a table may name a build whose rows never reached the disk.
        is_done = self.is_of(build)
        base = changes.base if changes and self.is_of(changes.base) else None
        connection.execute(f"ATTACH {text(str(build))} AS {_PUBLISHED} (READ_ONLY)")
        counts = row_counts(connection, _PUBLISHED)
        tables = [table for table in counts if table.startswith(PREFIX)]
        stale = [table for table in tables if not (is_done and self._is_of(table, build.stem))]
        make_folders(self.folder, stale)

        def export(connection: Connection, table: str) -> None:
            can_extend = changes and base and self._is_of(table, base.stem)
            if not (can_extend and changes and self._extend(connection, table, build.stem, changes)):
                self._export(connection, table, build.stem, counts[table])

        # An export of a small table waits for the disk most of the time; a large one needs memory.
        with ThreadPoolExecutor(SMALL_AT_ONCE) as small:
            begun = [small.submit(export, connection.cursor(), table) for table in stale if counts[table] < PART_ROWS]
            for table in stale:
                if counts[table] >= PART_ROWS:
                    export(connection, table)
            for one in begun:
                one.result()
        connection.execute(f"DETACH {_PUBLISHED}")
        if not is_done:
            replace_text(self.folder / POINTER, build.stem)

    def _is_of(self, table: str, build_id: str) -> bool:
        return self.is_readable(table) and self.build(table) == build_id

    def _export(self, connection: Connection, table: str, build_id: str, rows: int) -> None:
        folder = self.folder / table
        files = [self._write(connection, table, build_id, days) for days in _parts(connection, table, rows)]
        try:
            delta.replace(folder, files, {"build_id": build_id})
        except DeltaError:
            # Gold is derived: a readable table matters more than its history.
            shutil.rmtree(folder / LOG)
            delta.replace(folder, files, {"build_id": build_id})

    def _extend(self, connection: Connection, table: str, build_id: str, changes: Changes) -> bool:
        """Writes only the files that have changed days; False where the table must be exported whole."""
        folder, added, superseded = self.folder / table, [], []
        if table not in changes.unchanged:
            days, files = changes.days.get(table), delta.files_by_day(folder)
            if days is None or len(files) < 2:
                return False
            ranges = _ranges(files, days)
            superseded = [file.name for file, changed in zip(files, ranges, strict=False) if changed]
            added = [self._write(connection, table, build_id, changed) for changed in ranges if changed]
        schema = Schema.from_arrow(pq.read_schema(delta.live_files(folder)[0]))
        delta.commit(folder, schema, added, build_id, {"build_id": build_id}, superseded)
        delta.vacuum(folder)
        return True

    def _write(self, connection: Connection, table: str, build_id: str, days: Days | None) -> delta.DataFile:
        # A new name each time: older versions of the table still name their files.
        file = self.folder / table / f"{build_id}-{uuid.uuid4().hex[:8]}.parquet"
        options = f"{PARQUET_OPTIONS}, KV_METADATA {{build_id: {text(build_id)}}}"
        rows = f"FROM {_PUBLISHED}.main.{name(table)}"
        only = f" WHERE dt BETWEEN '{days[0]}' AND '{days[1]}'" if days else ""
        connection.execute(f"COPY ({rows}{only}) TO {text(str(file))} ({options})")
        sync(file)
        return delta.DataFile(file.name, pq.read_metadata(file).num_rows, {}, days=days)


def _parts(connection: Connection, table: str, rows: int) -> list[Days | None]:
    """The days of each file: a large table of days is cut, so that another day need not write all of it again."""
    if rows < 2 * PART_ROWS:
        return [None]
    target = f"{_PUBLISHED}.main.{name(table)}"
    columns = [str(row[0]) for row in connection.execute(f"SELECT column_name FROM (DESCRIBE {target})").fetchall()]
    if "dt" not in columns:
        return [None]
    counts = connection.execute(f"SELECT dt, count(*) FROM {target} GROUP BY dt ORDER BY dt").fetchall()
    if any(day is None for day, _ in counts):
        return [None]
    parts: list[tuple[date, date, int]] = []
    for day, count in counts:
        if parts and parts[-1][2] < PART_ROWS:
            first, _, before = parts.pop()
            parts.append((first, day, before + count))
        else:
            parts.append((day, day, count))
    return [(first, last) for first, last, _ in parts]


def _ranges(files: Sequence[delta.DataFile], changed: Iterable[date]) -> list[Days | None]:
    """Of each file, the days that it is written anew with, or None; then those of a further file. Each day before a
    file and after the one before it is of that file."""
    found: list[Days | None] = []
    pending = sorted(changed)
    for file in files:
        first, last = file.days or (date.max, date.min)
        own = [day for day in pending if day <= last]
        pending = pending[len(own) :]
        found.append((min(first, *own), last) if own else None)
    if pending and files[-1].rows < PART_ROWS and files[-1].days:
        first = (found[-1] or files[-1].days)[0]
        found[-1] = (first, pending[-1])
    elif pending:
        found.append((pending[0], pending[-1]))
    return found
