"""Append rows as lines of JSON to files that several processes write: in one write each, so that lines stay whole."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gpulake.collect.rundir import open_file
from gpulake.core.disk import make_folder, sync

MOST_WAITING = 100_000
LOG = logging.getLogger("gpulake.collect")
PathRow: TypeAlias = tuple[Path, Mapping[str, Any]]  # a row, and the file that it goes to


def append_synced(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends all rows in one write and returns once they are on the disk. Raises OSError.

    Where a writer was killed or the disk was full in the middle of a line, the next line begins on its own.
    """
    content = b"".join(line_of(row) for row in rows)
    make_folder(path.parent)
    file = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(file).st_size
        if not size:
            sync(path.parent)  # the name of a new file
        elif content and os.pread(file, 1, size - 1) != b"\n":
            content = b"\n" + content
        while content:
            content = content[os.write(file, content) :]
        os.fdatasync(file)
    finally:
        os.close(file)


def line_of(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSON; text that is not valid Unicode is replaced, so that every reader can read it."""
    text = json.dumps(row, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


class BackgroundWriter:
    """Appends the rows of a service to several files, in a thread, once per interval.

    A row is on the disk about an interval after it was added, or at `close`. A killed process loses at most the last
    interval; on a full disk rows wait, up to a limit, and dropped rows are counted and logged. `tick` returns more rows
    before each write.
    """

    def __init__(
        self,
        *,
        interval_seconds: float = 1.0,
        tick: Callable[[], Iterable[PathRow]] = lambda: (),
    ) -> None:
        self._interval_seconds = interval_seconds
        self._tick = tick
        self._waiting: deque[PathRow] = deque()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_failing = False
        self.dropped = 0

    def add(self, path: Path, row: Mapping[str, Any]) -> None:
        """Never waits."""
        if self._pid != os.getpid():
            self._begin()
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append((path, row))

    def flush(self) -> None:
        """Writes everything that was added; what the disk has no room for keeps waiting."""
        with self._writing:
            self._waiting.extend(self._tick())
            by_path: dict[Path, list[Mapping[str, Any]]] = {}
            for _ in range(len(self._waiting)):
                path, row = self._waiting.popleft()
                by_path.setdefault(path, []).append(row)
            failures: list[str] = []
            for path, rows in by_path.items():
                try:
                    append_synced(path, rows)
                except OSError as error:
                    self._waiting.extendleft((path, row) for row in reversed(rows))
                    failures.append(f"{path}: {error.strerror}")
            if by_path:
                self._log(failures)

    def close(self) -> None:
        """Flushes and ends the thread. If more rows are added, it begins again."""
        self._end.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and self._pid == os.getpid():
            thread.join()
        self._pid = 0
        self.flush()
        if self._waiting:
            LOG.warning("%d rows could not be written, dropped=%d", len(self._waiting), self.dropped)

    def _begin(self) -> None:
        """Starts the thread in this process: a fork has no threads of its parent."""
        if self._pid:
            self._waiting.clear()  # rows of the parent, which writes them itself
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._end,), name="gpulake-journal", daemon=True)
        self._thread.start()

    def _run(self, end: threading.Event) -> None:
        while not end.wait(self._interval_seconds):
            self.flush()

    def _log(self, failures: list[str]) -> None:
        """Once when writing begins to fail, and once when it works again."""
        if failures and not self._is_failing:
            LOG.warning("cannot write %s; rows wait for room", failures[0])
        elif self._is_failing and not failures:
            LOG.warning("rows are written again, dropped=%d", self.dropped)
        self._is_failing = bool(failures)
