"""Gold for other engines: a Delta table each, exported after the build is published. Each names the build it is of."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from gpulake.core.disk import make_folder, replace_text, sync
from gpulake.lake import delta
from gpulake.lake.builds import POINTER
from gpulake.lake.engine import Connection, name, row_counts, text
from gpulake.lake.textfile import PARQUET_OPTIONS

_PUBLISHED = "published"
PREFIX = "gold_"


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

    def export(self, connection: Connection, build: Path) -> None:
        """Exports tables that are of another build or unreadable. Idempotent."""
        # After an interrupted export, a table may name a build whose rows never reached the disk.
        is_done = self.is_of(build)
        connection.execute(f"ATTACH {text(str(build))} AS {_PUBLISHED} (READ_ONLY)")
        tables = [table for table in row_counts(connection, _PUBLISHED) if table.startswith(PREFIX)]
        for table in tables:
            if not is_done or not self._is_of(table, build.stem):
                self._export(connection, table, build.stem)
        connection.execute(f"DETACH {_PUBLISHED}")
        if not is_done:
            replace_text(self.folder / POINTER, build.stem)

    def _is_of(self, table: str, build_id: str) -> bool:
        return self.is_readable(table) and self.build(table) == build_id

    def _export(self, connection: Connection, table: str, build_id: str) -> None:
        folder = self.folder / table
        make_folder(folder)
        # A new name each time: older versions of the table still name their files.
        file = folder / f"{build_id}-{uuid.uuid4().hex[:8]}.parquet"
        options = f"{PARQUET_OPTIONS}, KV_METADATA {{build_id: {text(build_id)}}}"
        connection.execute(f"COPY {_PUBLISHED}.main.{name(table)} TO {text(str(file))} ({options})")
        sync(file)
        try:
            delta.replace(folder, file, {"build_id": build_id})
        except DeltaError:
            # Gold is derived: a readable table matters more than its history.
            shutil.rmtree(folder / delta.LOG)
            delta.replace(folder, file, {"build_id": build_id})
