"""Files that are written atomically, and sorted in bounded memory.

Lines mostly come in order. Lines that come a little late are sorted in a window; later ones begin another run, and the
runs are merged when the file is finished.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any

from gpulake.collect.cctf.order import Key
from gpulake.core.disk import replace
from gpulake.core.errors import UsageError

WINDOW_LINES = 8_192
FAN_IN = 64  # runs that are open at once
ENDING = ".gpulake-tmp"
BUFFER_BYTES = 1 << 20


class SortedFile:
    """A file of lines in the order of their keys. It appears at `path` when it is finished."""

    def __init__(self, path: Path, key_of: Callable[[str], Key], *, window_lines: int = WINDOW_LINES) -> None:
        self.path = path
        self.lines = 0
        self._key_of = key_of
        self._window_lines = window_lines
        self._window: list[tuple[int, Key, str]] = []  # by the run of the line
        self._runs: list[Path] = []
        self._made = 0
        self._run: IO[str] | None = None
        self._last: Key = ()

    def add(self, key: Key, line: str) -> None:
        """A line without its end; it may come late."""
        self.lines += 1
        run = len(self._runs) + (1 if key < self._last or self._run is None else 0)
        if not self._window_lines:
            self._write(run, key, line)
        elif len(self._window) < self._window_lines:
            heapq.heappush(self._window, (run, key, line))
        else:
            self._write(*heapq.heappushpop(self._window, (run, key, line)))

    def add_sorted(self, first: Key, last: Key, lines: list[str]) -> None:
        """Lines that are sorted among themselves; they bypass the window."""
        if not lines:
            return
        self.lines += len(lines)
        run = len(self._runs) + (1 if first < self._last else 0)
        self._opened(run).write("\n".join(lines) + "\n")
        self._last = last

    def finish(self) -> None:
        """Moves the file to its path, over an older one."""
        replace(self._sorted(), self.path)

    def drain(self) -> Iterator[str]:
        """The lines in order; deletes the temporary files."""
        source = self._sorted()
        try:
            yield from _lines(source)
        finally:
            source.unlink(missing_ok=True)

    def discard(self) -> None:
        if self._run is not None:
            self._run.close()
        for run in self._runs:
            run.unlink(missing_ok=True)

    def _sorted(self) -> Path:
        while self._window:
            self._write(*heapq.heappop(self._window))
        self._opened(len(self._runs)).close()
        while len(self._runs) > 1:
            group, self._runs = self._runs[:FAN_IN], self._runs[FAN_IN:]
            self._runs.append(self._merged(group))
        return self._runs[0]

    def _merged(self, group: list[Path]) -> Path:
        target = self._next_name()
        with open_text(target) as output, contextlib.ExitStack() as open_runs:
            sources = [open_runs.enter_context(contextlib.closing(_lines(run))) for run in group]
            for line in heapq.merge(*sources, key=self._key_of):
                output.write(f"{line}\n")
        for run in group:
            run.unlink()
        return target

    def _write(self, run: int, key: Key, line: str) -> None:
        self._opened(run).write(f"{line}\n")
        self._last = key

    def _opened(self, run: int) -> IO[str]:
        if self._run is None or run > len(self._runs):
            if self._run is not None:
                self._run.close()
            self._runs.append(self._next_name())
            self._run = open_text(self._runs[-1])
        return self._run

    def _next_name(self) -> Path:
        self._made += 1
        return self.path.with_name(f".{self.path.name}.{self._made}{ENDING}")


def write_json(path: Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    source = temporary(path)
    with open_text(source) as output:
        output.write(text)
    replace(source, path)


def temporary(path: Path) -> Path:
    """The temporary path of a file."""
    return path.with_name(f".{path.name}{ENDING}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates and locks the folder, and deletes temporary files of a crash."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{folder} is being written already", "wait for the other command to end") from error
        for path in folder.glob(f".*{ENDING}"):
            path.unlink()
        yield
    finally:
        os.close(descriptor)


def open_text(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", errors="replace", newline="\n", buffering=BUFFER_BYTES)


def _lines(path: Path) -> Generator[str, None, None]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line.rstrip("\n")
