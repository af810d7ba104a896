"""The order of rows in a file, which is also their identity: time first, then the subject."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from gpulake.core.tables import cctf_tables

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
