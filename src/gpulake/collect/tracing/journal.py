"""What a service writes of itself without waiting for the disk: rows are kept, and a thread appends them once a second.

Promise: a row is on the disk about a second after it was given, or at `close`. If the process is killed, at most the
last second is lost; if the disk is full, rows wait for room, up to a number, and what is dropped is counted and said.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from gpulake.collect.tracing.appending import append_synced

MOST_WAITING = 100_000
LOG = logging.getLogger("gpulake.collect")


class Journal:
    """Appends to several files. `tick` is asked for more rows each time before they are written."""

    def __init__(
        self, *, interval_seconds: float = 1.0, tick: Callable[[], Iterable[tuple[Path, object]]] = lambda: ()
    ) -> None:
        self._interval_seconds = interval_seconds
        self._tick = tick
        self._waiting: deque[tuple[Path, object]] = deque()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_failing = False
        self.dropped = 0

    def add(self, path: Path, row: object) -> None:
        """Never waits."""
        if self._pid != os.getpid():
            self._begin()
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append((path, row))

    def flush(self) -> None:
        """Everything that was given is on the disk, or waits for room."""
        with self._writing:
            self._waiting.extend(self._tick())
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            by_path: dict[Path, list[object]] = {}
            for path, row in rows:
                by_path.setdefault(path, []).append(row)
            failures: list[str] = []
            for path, kept in by_path.items():
                try:
                    append_synced(path, kept)
                except OSError as error:
                    self._waiting.extendleft((path, row) for row in reversed(kept))
                    failures.append(f"{path}: {error.strerror}")
            if by_path:
                self._tell(failures)

    def close(self) -> None:
        """The last flush; the thread ends. More may be added: then it begins again."""
        self._end.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and self._pid == os.getpid():
            thread.join()
        self._pid = 0
        self.flush()
        if self._waiting:
            LOG.warning("%d rows could not be written, dropped=%d", len(self._waiting), self.dropped)

    def _begin(self) -> None:
        """In this process: a thread does not go along when a server forks its workers."""
        if self._pid:
            self._waiting.clear()  # the parent's: it writes them itself
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._end,), name="gpulake-journal", daemon=True)
        self._thread.start()

    def _run(self, end: threading.Event) -> None:
        while not end.wait(self._interval_seconds):
            self.flush()

    def _tell(self, failures: list[str]) -> None:
        """Once when it begins to fail, and once when that is over."""
        if failures and not self._is_failing:
            LOG.warning("cannot write %s; rows wait for room", failures[0])
        elif self._is_failing and not failures:
            LOG.warning("rows are written again, dropped=%d", self.dropped)
        self._is_failing = bool(failures)
