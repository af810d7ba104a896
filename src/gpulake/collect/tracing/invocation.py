"""Rows that adapters write: invocations, placement events and statistics, with the columns of cctf.toml."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 4096  # of an untrusted text
MOST_MS = 253_402_300_800_000  # the year 10000
MOST_INTEGER = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """A request, task or command that was traced. None: unknown."""

    trace_id: str | None = None
    span_id: str | None = None
    parent_id: str | None = None
    module_id: str | None = None
    instance_id: str | None = None
    ts_enqueue: int | None = None
    ts_start: int | None = None
    ts_end: int
    node: str
    stage: str | None = None
    method: str | None = None
    path: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    cpu_time_ms: float | None = None
    queue_time_ms: float | None = None
    service_time_ms: float | None = None
    rt_ms: float | None = None
    status: int | None = None
    pid: int | None = None
    host_id: str | None = None
    proc_id: str | None = None
    input: str | None = None
    output: str | None = None
    state: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlacementEvent:
    """An instance that began or ended on a node."""

    ts: int
    app_id: str | None
    module_id: str | None
    instance_id: str | None
    node_id: str
    event: str  # start or stop
    stage: str | None
    host_id: str | None
    pid: int | None


@dataclass(frozen=True, kw_only=True)
class SystemStat:
    ts_ms: int
    node: str
    stage: str | None
    metric: str
    value: float
    instance_id: str | None
    host_id: str | None


@dataclass(frozen=True)
class Times:
    """Times of request, start and end in milliseconds of the epoch. Raises ValueError if they are out of order."""

    ts_enqueue: int | None
    ts_start: int | None
    ts_end: int

    def __post_init__(self) -> None:
        known = [at for at in (self.ts_enqueue, self.ts_start, self.ts_end) if at is not None]
        if not all(0 <= at < MOST_MS for at in known):
            raise ValueError(f"a time out of range: {max(known, key=abs)} ms")
        if self.ts_start is not None and self.ts_start > self.ts_end:
            raise ValueError(f"it ends {self.ts_start - self.ts_end} ms before it begins")
        begins = self.ts_end if self.ts_start is None else self.ts_start
        if self.ts_enqueue is not None and self.ts_enqueue > begins:
            raise ValueError(f"it begins {self.ts_enqueue - begins} ms before it is asked for")

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of an invocation that times determine."""
        return {
            "ts_enqueue": self.ts_enqueue,
            "ts_start": self.ts_start,
            "ts_end": self.ts_end,
            "queue_time_ms": _between(self.ts_enqueue, self.ts_start),
            "service_time_ms": _between(self.ts_start, self.ts_end),
            "rt_ms": _between(self.ts_enqueue, self.ts_end),
        }


def object_of(text: str) -> dict[str, Any] | None:
    """An untrusted text as a JSON object; None if it is none: NaN, overlong numbers and deep nesting included."""
    try:
        content = json.loads(text, parse_constant=int)  # int raises ValueError on NaN and Infinity
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def text_of(value: object) -> str | None:
    """An untrusted text, up to a length; empty is None."""
    return str(value)[:MOST_CHARACTERS] or None


def integer_of(text: str) -> int | None:
    """A count as digits; anything else is None."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    number = int(text)
    return number if number <= MOST_INTEGER else None


def id_from(*words: object) -> str:
    """The same id for the same words, so that a line that is read twice is recognised."""
    digest = hashlib.sha256()
    for word in words:
        content = str(word).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()[:16]


def _between(first: int | None, last: int | None) -> float | None:
    return None if first is None or last is None else float(last - first)
