"""The last complete build, kept open for many readers at once; reopened when there is a new one."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpulake.core.tables import bronze_tables, written_tables
from gpulake.lake.engine import Connection, lake_errors
from gpulake.lake.journal import FILES as JOURNALS
from gpulake.lake.limits import limit
from gpulake.lake.reader import LakeReader
from gpulake.lake.store import Lake
from gpulake.lake.views import SEARCH_PATH

MOST_CATALOGUES = 64


@dataclass
class _Opened:
    state: tuple[object, ...]
    connection: Connection
    closing: ExitStack
    tables: frozenset[str]
    catalogues: dict[frozenset[str], str] = field(default_factory=dict)  # of views, by the groups that they show
    users: int = 0
    is_stale: bool = False


@dataclass
class Snapshots:
    """Readers of one build share its connection, each with a cursor. A replaced build goes with its last reader."""

    lake: Lake
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _opened: _Opened | None = None

    @contextmanager
    def reading(self, groups: frozenset[str] | None = None) -> Iterator[LakeReader]:
        """All rows, or those that a member of these groups may see."""
        opened = self._enter(groups)
        try:
            cursor = opened.connection.cursor()
            # A cursor does not inherit the search path. A limited viewer's path has the limiting views alone.
            path = SEARCH_PATH if groups is None else f"{opened.catalogues[groups]}.main"
            cursor.execute(f"SET search_path = '{path}'")
            try:
                yield LakeReader(cursor)
            finally:
                cursor.close()
        finally:
            self._leave(opened)

    def tables(self) -> frozenset[str]:
        """Tables that can be queried now."""
        opened = self._enter()
        self._leave(opened)
        return opened.tables

    def version(self, tables: Collection[str]) -> str:
        """Changes whenever rows of these tables do, as readers see them; those of a build never do."""
        opened = self._enter()
        self._leave(opened)
        journals = sorted({_journal_of(table) for table in tables} - {None})  # type: ignore[type-var]
        parts = [str(opened.state), *(f"{file}:{_size(self.lake.root / str(file))}" for file in journals)]
        return "|".join(parts)

    def refresh(self) -> tuple[str, str]:
        """Makes readers use the current build, and returns the version of everything they see."""
        opened = self._enter(is_patient=True)
        self._leave(opened)
        return str(opened.state), self.version(JOURNALS)

    def close(self) -> None:
        with self._lock:
            if self._opened:
                self._retire(self._opened)
            self._opened = None

    def _enter(self, groups: frozenset[str] | None = None, is_patient: bool = False) -> _Opened:
        """The first caller after a change reopens the lake; meanwhile others, unless patient, use what is open."""
        while True:
            with self._lock:
                opened = self._opened
                may_be_old = self._opening.locked() and not is_patient
                is_fit = opened is not None and not _is_full(opened, groups)
                if opened is not None and is_fit and (opened.state == self._state() or may_be_old):
                    self._limit(opened, groups)
                    opened.users += 1
                    return opened
            with self._opening:
                self._open_if_changed(groups)

    def _limit(self, opened: _Opened, groups: frozenset[str] | None) -> None:
        if groups is None or groups in opened.catalogues:
            return
        catalogue = f"own_{len(opened.catalogues)}"
        with lake_errors(f"opening the lake at {self.lake.root}"):
            limit(opened.connection, catalogue, groups)
        opened.catalogues[groups] = catalogue

    def _open_if_changed(self, groups: frozenset[str] | None) -> None:
        state = self._state()
        if self._opened is not None and self._opened.state == state and not _is_full(self._opened, groups):
            return
        fresh = self._open(state)
        with self._lock:
            if self._opened:
                self._retire(self._opened)
            self._opened = fresh

    def _leave(self, opened: _Opened) -> None:
        with self._lock:
            opened.users -= 1
            if opened.is_stale and not opened.users:
                opened.closing.close()

    def _retire(self, opened: _Opened) -> None:
        opened.is_stale = True
        if not opened.users:
            opened.closing.close()

    def _open(self, state: tuple[object, ...]) -> _Opened:
        with ExitStack() as stack:
            reader = stack.enter_context(self.lake.open().reading())
            # Every view is made before readers share the connection.
            connection = reader.connection
            return _Opened(state, connection, stack.pop_all(), frozenset(reader.tables()))

    def _state(self) -> tuple[object, ...]:
        """What a connection depends on: the build, the landed files and the existing journals."""
        # An error of the disk may be temporary: the caller keeps polling.
        with lake_errors(f"looking at the lake at {self.lake.root}"):
            current = self.lake.builds.current()
            landed = max(map(_changed, self._logs), default=0)
            journals = tuple(file for file, path in self._journals.items() if path.exists())
            return (current.name if current else None, landed, journals)

    # Every answer looks at the state several times: joining some fifty paths takes longer than looking at the files.
    @cached_property
    def _logs(self) -> tuple[Path, ...]:
        tables = (self.lake.bronze.folder / table for table in bronze_tables())
        return tuple(folder / "_delta_log" for folder in (*tables, self.lake.quarantine.folder))

    @cached_property
    def _journals(self) -> dict[str, Path]:
        return {file: self.lake.root / file for file in JOURNALS.values()}


def _is_full(opened: _Opened, groups: frozenset[str] | None) -> bool:
    """Too many sets of groups are cached: the connection is replaced and their views made again when needed."""
    return groups is not None and groups not in opened.catalogues and len(opened.catalogues) >= MOST_CATALOGUES


def _journal_of(table: str) -> str | None:
    written = written_tables().get(table)
    return JOURNALS.get(written.latest.of if written and written.latest else table)


def _size(path: Path) -> tuple[int, int]:
    """Of a journal, which only grows; or is replaced, and then has another time."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
