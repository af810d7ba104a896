"""The last complete build, kept open for many readers at once; opened anew when there is another."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpulake.core.tables import bronze_tables, written_tables
from gpulake.lake.store import JOURNAL, Lake, Reader
from gpulake.lake.views import LANDED

SEARCH_PATH = f"lake.main,{LANDED}.main"
NAMES = """
SELECT table_name AS name FROM duckdb_tables() WHERE NOT internal
UNION SELECT view_name FROM duckdb_views() WHERE NOT internal
"""


@dataclass
class _Opened:
    state: tuple[object, ...]
    reader: Reader
    closing: ExitStack
    tables: frozenset[str]
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
    def reading(self) -> Iterator[Reader]:
        opened = self._enter()
        try:
            cursor = opened.reader.connection.cursor()
            # A cursor does not look where its connection does.
            cursor.execute(f"SET search_path = '{SEARCH_PATH}'")
            try:
                yield Reader(cursor)
            finally:
                cursor.close()
        finally:
            self._leave(opened)

    def tables(self) -> frozenset[str]:
        """Those that can be asked now."""
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
        """What readers see from now on is what there is now: its build, and the version of everything."""
        opened = self._enter(is_patient=True)
        self._leave(opened)
        return str(opened.state), self.version(JOURNAL)

    def close(self) -> None:
        with self._lock:
            if self._opened:
                self._retire(self._opened)
            self._opened = None

    def _enter(self, is_patient: bool = False) -> _Opened:
        """Who comes first after a change opens the lake anew; others go on with what is open, but for patient ones."""
        while True:
            with self._lock:
                state = self._state()
                opened = self._opened
                is_current = opened is not None and opened.state == state
                if opened is not None and (is_current or (self._opening.locked() and not is_patient)):
                    opened.users += 1
                    return opened
            with self._opening:
                self._open_if_changed()

    def _open_if_changed(self) -> None:
        state = self._state()
        if self._opened is not None and self._opened.state == state:
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
            names = frozenset(row["name"] for row in reader.query(NAMES).to_pylist())
            return _Opened(state, reader, stack.pop_all(), names)

    def _state(self) -> tuple[object, ...]:
        """What a connection is opened on: the build, what has landed, and which journals there are."""
        current = self.lake.builds.current()
        logs = (self.lake.bronze.folder / table / "_delta_log" for table in bronze_tables())
        landed = max((_changed(log) for log in (*logs, self.lake.quarantine.folder / "_delta_log")), default=0)
        journals = tuple(file for file in JOURNAL.values() if (self.lake.root / file).exists())
        return (current.name if current else None, landed, journals)


def _journal_of(table: str) -> str | None:
    written = written_tables().get(table)
    return JOURNAL.get(written.latest.of if written and written.latest else table)


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
