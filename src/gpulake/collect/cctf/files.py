"""The files of a run: rows in the order of their keys, written atomically and sorted in bounded memory; other programs'
rows are fitted to their columns or rejected with a reason.

Lines mostly come in order. Lines that come a little late are sorted in a window; later ones begin another run, and the
runs are merged when the file is finished.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeAlias

from gpulake.core.disk import replace
from gpulake.core.errors import UsageError
from gpulake.core.lines import text_lines
from gpulake.core.tables import Table, cctf_tables
from gpulake.core.types import BadRow

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[Any, ...]
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode

# The subject of a row, after its time. Two rows with the same key are duplicates or in conflict.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "host_metrics": ("node", "host_id"),
    "link_metrics": ("node", "host_id", "link"),
    "proc_metrics": ("node", "host_id", "pid", "proc_id"),
    "proc_cpu": ("node", "host_id", "pid", "proc_id"),
    "proc_rss": ("node", "host_id", "pid", "proc_id"),
    "gpu_metrics": ("node", "host_id", "gpu_uuid"),
    "gpu_processes": ("node", "host_id", "gpu_uuid", "pid"),
    "node_events": ("node", "host_id", "kind", "subject", "code", "pid", "message", "source"),
    "invocations": ("pid", "node", "host_id", "trace_id", "span_id"),
    "placement_events": ("node_id", "host_id", "app_id", "module_id", "instance_id", "event", "pid"),
    "system_stats": ("node", "host_id", "metric", "instance_id"),
}
# The first of these that is known is the time of the row.
TIMES: dict[str, tuple[str, ...]] = {
    "invocations": ("ts_enqueue", "ts_start", "ts_end"),
    "placement_events": ("ts",),
}
# All times of a row: shifted when a clock is corrected.
CLOCK_COLUMNS = ("ts_ms", "ts", "ts_enqueue", "ts_start", "ts_end", "started_ms")


def time_of(table: str, row: Row) -> int:
    """The time of a row; rows without one come first."""
    at = row.get("ts_ms")
    if isinstance(at, int) and table not in TIMES:
        return at
    for column in TIMES.get(table, ("ts_ms",)):
        value = row.get(column)
        if isinstance(value, int | float):
            return int(value)
    return 0


def key_of(table: str) -> Callable[[Row], Key]:
    """The sort key of rows of a table."""
    types = cctf_tables()[table].column_types
    comparable = [(column, _number if types[column] == "integer" else _word) for column in SUBJECTS[table]]

    def key(row: Row) -> Key:
        return (time_of(table, row), *[as_one(row.get(column)) for column, as_one in comparable])

    def key_of_all(row: Row) -> Key:
        """Without a span id, all columns identify an invocation."""
        return key(row) if row.get("span_id") else (*key(row), text_of(row))

    return key_of_all if table == "invocations" else key


def line_key(table: str) -> Callable[[str], Key]:
    """The sort key of a line of the file."""
    key = key_of(table)
    return lambda line: key(json.loads(line))


def whole(table: str, row: Row) -> dict[str, Any]:
    """All columns of the table in order; unknown ones are None."""
    return {column: row.get(column) for column in _columns(table)}


@cache
def _columns(table: str) -> tuple[str, ...]:
    return cctf_tables()[table].column_names


def text_of(row: Row) -> str:
    """A line of JSON; NaN and infinity become null."""
    try:
        return _encode(row)
    except ValueError:
        return _encode(_finite(row))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> int | float:
    return value if isinstance(value, int | float) else -1


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


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


LARGEST_INTEGER = 2**63 - 1
KEPT_CHARACTERS = 2_000


@dataclass
class Rejects:
    """Rejected lines: written to a file, and counted."""

    output: IO[str]
    by_reason: Counter[tuple[str, str]] = field(default_factory=Counter)  # file and reason
    torn: Counter[str] = field(default_factory=Counter)  # files with an incomplete last line
    misfits: Counter[str] = field(default_factory=Counter)  # values of the wrong type, by column
    unknown_fields: Counter[str] = field(default_factory=Counter)

    def add(self, file: str, line_number: int, reason: str, text: str) -> None:
        self.by_reason[file, reason] += 1
        reject = {"file": file, "line": line_number, "reason": reason, "text": text[:KEPT_CHARACTERS]}
        self.output.write(json.dumps(reject, ensure_ascii=False) + "\n")


def objects(path: Path, rejects: Rejects) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The lines that are JSON objects, with their number and text."""
    for line_number, line in text_lines(path):
        if isinstance(line, BadRow):
            rejects.add(path.name, line_number, line.reason, line.text)
            continue
        text = line.strip()
        if not text:
            continue
        try:
            row = json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            if not line.endswith("\n"):
                rejects.torn[path.name] += 1
                rejects.add(path.name, line_number, "its end is missing: it was being written", text)
            else:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is no JSON"
                rejects.add(path.name, line_number, f"it is no JSON: {reason}", text)
            continue
        if isinstance(row, dict):
            yield line_number, row, text
        else:
            rejects.add(path.name, line_number, "it is no object", text)


def fitted(table: Table, row: dict[str, Any], rejects: Rejects) -> dict[str, Any] | str:
    """The row with all columns of the table, each of its type or None; or the reason why it is rejected."""
    fit: dict[str, Any] = {}
    for column in table.columns:
        value = row.get(column.name)
        fit[column.name] = cast(value, column.type)
        if value is not None and fit[column.name] is None:
            rejects.misfits[f"{table.name}.{column.name}"] += 1
    for name in row.keys() - table.column_types.keys():
        rejects.unknown_fields[f"{table.name}.{name[:80]}"] += 1
    missing = [name for name in table.required if fit[name] is None]
    return f"{missing[0]} is missing" if missing else fit


def cast(value: Any, kind: str) -> Any:
    """A value converted to the type, or None if that is impossible."""
    if value is None or kind == "json":
        return value
    if kind == "text":
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, int | float) else None
    if kind == "flag":
        return value if isinstance(value, bool) else None
    number = _as_number(value)
    if number is None or kind == "number":
        return number
    if isinstance(number, float):
        number = round(number)
    return number if abs(number) <= LARGEST_INTEGER else None


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**300 else None
    return value if isinstance(value, float) and math.isfinite(value) else None
