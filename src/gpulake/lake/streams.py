"""Rows of a stream → bronze, exactly once: how far the stream is, is said in the commit that adds its rows.

It waits for no build: a commit takes a moment's turn at its table. A stream that writes to several tables says how far
it is in each of them; the first one is committed last, and is where it goes on from after a crash. What another table
has by then is known from that table's own commits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gpulake.core.clock import Clock
from gpulake.core.disk import make_folder, sync
from gpulake.core.errors import LakeBusyError
from gpulake.core.locks import locked
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, Landing
from gpulake.lake import delta
from gpulake.lake.access import as_private_as
from gpulake.lake.blocks import Copied
from gpulake.lake.delta import Move, MovedOnError
from gpulake.lake.engine import lake_errors
from gpulake.lake.rewritten import copy_rewritten, rewritten
from gpulake.lake.types import arrow_schema, delta_schema

if TYPE_CHECKING:
    from gpulake.lake.store import Lake

__all__ = ["Batch", "Move", "MovedOnError", "Streams"]


@dataclass(frozen=True)
class Batch:
    """Messages that are rows of one table, and how far their streams are with them."""

    source: str  # names these messages and no others
    layout: CsvLayout  # its rewrite gives the rows; the line number of a bad one is the place of its message
    moves: Mapping[str, Move]
    size_bytes: int
    said: Mapping[str, str] = field(default_factory=dict)  # what else the commit is to say
    place: Callable[[BadRow], BadRow] = lambda row: row  # where a message is, in the stream's own words


class Streams:
    """For one process; its folder in the lake is its own."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._root = lake.root / "streams"
        self._folder = self._root / uuid.uuid4().hex
        self._stack = ExitStack()

    def __enter__(self) -> Streams:
        with lake_errors("preparing for a stream"), as_private_as(self._lake.root):
            make_folder(self._root)
            busy = LakeBusyError(f"{self._root} is in use", "run it again")
            with locked(self._root / ".lock", busy, is_patient=True):
                self._remove_left()
                make_folder(self._folder)
                self._stack.enter_context(locked(self._folder / "lock", busy))
        self._connection = self._stack.enter_context(self._lake.connect(self._folder / "spill"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _remove_left(self) -> None:
        """What processes left that were killed: their locks are free."""
        for folder in [path for path in self._root.iterdir() if path.is_dir()]:
            try:
                with locked(folder / "lock", LakeBusyError("", "")):
                    shutil.rmtree(folder, ignore_errors=True)
            except LakeBusyError:
                continue

    def positions(self, table: str, streams: Sequence[str]) -> dict[str, int | None]:
        with lake_errors(f"reading how far a stream is in {table}"):
            return delta.positions(self._lake.bronze.folder / table, streams)

    def said(self, table: str, key: str, most: int) -> list[str]:
        """What the last commits of a table say under this key."""
        with lake_errors(f"reading what was committed to {table}"):
            return delta.said_last(self._lake.bronze.folder / table, key, most)

    def land(self, batch: Batch, clock: Clock) -> Landing:
        """One commit: the rows, and how far the streams are. MovedOnError where another process has landed them."""
        table = batch.layout.table
        parquet = self._folder / f"{uuid.uuid4().hex}.parquet"
        with lake_errors(f"landing {batch.source}"), as_private_as(self._lake.root):
            with rewritten(Path(os.devnull), batch.layout, parquet) as (found, bad):  # the rows come from no file
                copied = copy_rewritten(self._connection, found, parquet, batch.source)
            if not copied.rows:
                pq.write_table(arrow_schema(table).empty_table(), parquet)
            bad = [batch.place(row) for row in (*bad, *copied.bad)]
            landing = Landing(
                source=batch.source,
                table=table.name,
                sha256=hashlib.sha256(batch.source.encode()).hexdigest(),
                size_bytes=batch.size_bytes,
                rows_read=copied.rows + len(bad),
                rows_landed=copied.rows,
                rows_quarantined=len(bad),
                version=1,
                landed_at=clock.now(),
                file=parquet.name,
                replaces=(),
            )
            sync(parquet)
            self._commit(landing, copied, bad, batch)
        return landing

    def _commit(self, landing: Landing, copied: Copied, bad: Sequence[BadRow], batch: Batch) -> None:
        self._lake.quarantine.add(landing, bad, self._folder)
        entry = asdict(replace(landing, is_new=True))
        delta.commit(
            self._lake.bronze.folder / landing.table,
            delta_schema(bronze_tables()[landing.table]),
            [delta.DataFile(landing.file, copied.rows, copied.null_counts)],
            transaction=f"{landing.source}#{landing.version}",
            metadata={**entry, "landed_at": landing.landed_at.isoformat()},
            moves=batch.moves,
            moved_from=self._folder,
            said=batch.said,
        )

    def pass_over(self, table: str, moves: Mapping[str, Move]) -> None:
        """The streams are so far, and have no rows for this table."""
        with lake_errors(f"noting how far a stream is in {table}"), as_private_as(self._lake.root):
            schema = delta_schema(bronze_tables()[table])
            delta.commit(
                self._lake.bronze.folder / table, schema, [], "positions", {"positions": len(moves)}, moves=moves
            )

    def rows(self, landing: Landing, like: list[list[tuple[str, str, Any]]] | None = None) -> list[dict[str, Any]]:
        """What has just landed, where any of these conditions holds, each with all of its parts."""
        path = self._lake.bronze.folder / landing.table / landing.file
        named = sorted({name for parts in like or () for name, _, _ in parts})
        with lake_errors(f"reading {landing.source}"):
            if like and not pq.read_table(path, columns=named, filters=like).num_rows:
                return []  # the other columns, which are larger, are not read
            found: list[dict[str, Any]] = pq.read_table(path, filters=like).to_pylist()
        return found
