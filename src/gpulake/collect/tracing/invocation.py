"""Rows that adapters write (invocations, placement events, statistics), the run and node they belong to, and the trace.

Traces are W3C's `traceparent`, and plain ids beside it: a trace id that is not a W3C id is sent as text (X-Trace-Id,
TRACE_ID), together with a W3C id that is derived from it, so that a receiver of both recognises them as one.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from gpulake.collect.identity import Identity, identify
from gpulake.collect.machine.procfs import start_ticks_of
from gpulake.collect.rundir import RunDir, read_object
from gpulake.core.tables import cctf_tables

# Version 00 has these four parts and no more; a newer one may have more behind a dash.
TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
PLAIN_ID = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?")  # valid in a header, on one line
TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
LONGEST_STATE = 512
SAMPLED = 0x01


@dataclass(frozen=True)
class TraceParent:
    trace_id: str
    parent_id: str
    flags: int


@dataclass(frozen=True)
class TraceContext:
    """The trace, our span in it, and the parent span."""

    trace_id: str
    span_id: str
    parent_id: str | None
    flags: int = SAMPLED
    state: str = ""  # W3C's tracestate: passed on unchanged

    @property
    def traceparent(self) -> str:
        return f"00-{w3c_trace_id(self.trace_id)}-{w3c_span_id(self.span_id)}-{self.flags & SAMPLED:02x}"

    def headers(self) -> dict[str, str]:
        """Headers of a request that this span makes."""
        headers = {
            "traceparent": self.traceparent,
            "X-Trace-Id": self.trace_id,
            "X-Parent-Span-Id": self.span_id,
            "X-Span-Id": self.span_id,
        }
        return headers | {"tracestate": self.state} if self.state else headers

    def environment(self) -> dict[str, str]:
        """The same for a command."""
        return {"TRACEPARENT": self.traceparent, "TRACE_ID": self.trace_id}


def parse_traceparent(text: str) -> TraceParent | None:
    """Strictly as W3C specifies; None where a new trace must begin."""
    found = TRACEPARENT.fullmatch(text)
    if not found or found["version"] == "ff" or (found["version"] == "00" and found["more"] is not None):
        return None
    if not found["trace"].strip("0") or not found["parent"].strip("0"):
        return None
    return TraceParent(found["trace"], found["parent"], int(found["flags"], 16))


def plain_id(text: str | None) -> str | None:
    """Any id that fits in a header; the dash that logs write for a missing value is None."""
    return text if text and text != "-" and PLAIN_ID.fullmatch(text) else None


def context_from(given: Mapping[str, str]) -> TraceContext:
    """From traceparent, else from the plain ids; missing or invalid ids are generated. Names are in lower case."""
    parent = parse_traceparent(given.get("traceparent", ""))
    plain = plain_id(given.get("x-trace-id"))
    if parent is None:
        cause = plain_id(given.get("x-parent-span-id")) or plain_id(given.get("x-span-id"))
        return TraceContext(plain or secrets.token_hex(16), secrets.token_hex(8), cause if plain else None)
    is_same = plain is not None and w3c_trace_id(plain) == parent.trace_id
    state = given.get("tracestate", "")
    return TraceContext(
        trace_id=plain if plain is not None and is_same else parent.trace_id,
        span_id=secrets.token_hex(8),
        parent_id=parent.parent_id,
        flags=parent.flags,
        state=state if len(state) <= LONGEST_STATE and state.isascii() and state.isprintable() else "",
    )


def w3c_trace_id(trace_id: str) -> str:
    """The id itself if valid, a UUID without its dashes, else a hash of it."""
    if TRACE_ID.fullmatch(trace_id):
        return trace_id
    if UUID.fullmatch(trace_id) and trace_id.strip("0-"):
        return trace_id.replace("-", "").lower()
    return hashlib.sha256(trace_id.encode("utf-8", "replace")).hexdigest()[:32]


def w3c_span_id(span_id: str) -> str:
    is_valid = re.fullmatch(r"(?!0{16})[0-9a-f]{16}", span_id)
    return span_id if is_valid else hashlib.sha256(span_id.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True)
class Place:
    run: RunDir
    node: str
    stage: str | None
    host_id: str | None
    boot_id: str

    def placement(self, event: str, at_ms: int, **columns: Any) -> Row:
        """An instance that began or ended on the node; the event is start or stop."""
        node = {"node_id": self.node, "stage": self.stage, "host_id": self.host_id}
        return row_of("placement_events", ts=at_ms, event=event, **node, **columns)

    def proc_id(self, pid: int) -> str | None:
        start_ticks = start_ticks_of(pid)
        return None if start_ticks is None else f"{self.boot_id}-{start_ticks}-{pid}"


def place_of(path: Path, *, node: str = "", stage: str = "") -> Place:
    """RUN_DIR is named after its node, and node_meta.json may say more; arguments override both."""
    run = RunDir(path)
    known = {key: value for key, value in read_object(run.node_meta).items() if isinstance(value, str)}
    name = node or known.get("node") or path.resolve().name
    here: Identity = identify(run_id="run", node_id=name)
    # The log of another node may be read on this host.
    is_here = not node or node == known.get("node", path.resolve().name)
    return Place(
        run=run,
        node=name,
        stage=stage or known.get("stage") or None,
        host_id=(known.get("host_id") or here.host_id) if is_here else None,
        boot_id=here.boot_id,
    )


MOST_CHARACTERS = 4096  # of an untrusted text
MOST_MS = 253_402_300_800_000  # the year 10000
MOST_INTEGER = 2**63 - 1


Row: TypeAlias = dict[str, Any]


def row_of(table: str, **columns: Any) -> Row:
    """A row of a file of a run, with all columns that cctf.toml gives it; None: unknown."""
    row = _empty_row(table) | columns
    if len(row) > len(_empty_row(table)):
        raise AssertionError(f"{table} has no column {sorted(columns.keys() - _empty_row(table).keys())}")
    return row


@cache
def _empty_row(table: str) -> Row:
    return dict.fromkeys(cctf_tables()[table].column_names)


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
