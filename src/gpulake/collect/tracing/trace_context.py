"""The trace of a request: W3C's `traceparent`, and plain ids beside it.

A trace id that is not a W3C id is sent as text (X-Trace-Id, TRACE_ID), together with a W3C id that is derived from it,
so that a receiver of both recognises them as one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

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
