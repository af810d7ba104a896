"""A line of a segment: a checksum, and the block of a tick as JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

NO_BLOCK = "it is not what a collector writes"
MOST_NUMBER = 1 << 53
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


def line_of(*parts: Mapping[str, Any]) -> bytes:
    text = "\t".join(map(_encode, parts)).encode("utf-8", "replace")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def whole_of(line: bytes) -> dict[str, Any] | str:
    """The content of a line, or what is wrong with it."""
    content = head_of(line)
    if isinstance(content, str) or "format" in content:
        return content
    try:
        rows = json.loads(line.partition(b"\t")[2] or b"{}")
    except (ValueError, RecursionError):
        return NO_BLOCK
    is_rows = isinstance(rows, dict) and all(isinstance(some, list) for some in rows.values())
    return content | {"rows": rows} if is_rows else NO_BLOCK


def head_of(line: bytes) -> dict[str, Any] | str:
    """The same without the rows, which are most of it."""
    if not line.endswith(b"\n"):
        return "it ends before its end"
    checksum, _, text = line[:-1].partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return "its checksum does not match"
    try:
        content = json.loads(text.partition(b"\t")[0])
    except (ValueError, RecursionError):
        return NO_BLOCK
    return content if _is_block(content) else NO_BLOCK


def _is_block(content: Any) -> bool:
    """Whether a collector wrote it: a checksum proves that it is not damaged, not who wrote it."""
    if not isinstance(content, dict) or "format" in content:
        return isinstance(content, dict)
    numbers = [content.get(name) for name in ("tick", "now_ms", "elapsed_ms")]
    before, after, parts = (content.get(name) for name in ("before", "after", "parts"))
    if not isinstance(before, dict) or not isinstance(after, dict) or not isinstance(parts, dict):
        return False
    numbers += [*before.values(), *after.values()]
    spans = [span for kinds in parts.values() if isinstance(kinds, dict) for span in kinds.values()]
    are_spans = all(isinstance(kinds, dict) for kinds in parts.values()) and all(map(_is_span, spans))
    return are_spans and all(type(one) is int and abs(one) < MOST_NUMBER for one in numbers)


def _is_span(span: Any) -> bool:
    return isinstance(span, list) and len(span) == 2 and all(type(one) is int and one >= 0 for one in span)
