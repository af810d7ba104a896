"""Common parts of access logs of proxies: request lines, times, and the invocation of a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlsplit

from gpulake.collect.adapters import EMPTY, NOT_ENDED, AdapterOptions, Line, Outcome, Parsed, Skipped
from gpulake.collect.tracing.invocation import Invocation, Times, id_from, text_of
from gpulake.collect.tracing.trace_context import parse_traceparent, plain_id

REQUEST = re.compile(r"(?P<method>[A-Z][A-Z0-9_-]{0,31}) (?P<target>.*) HTTP/[\d.]{1,4}", re.DOTALL)
SECONDS = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)
MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * month : 3 * month + 3]: month + 1 for month in range(12)}
CLF = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII)


def no_request(line: Line) -> Outcome | None:
    """The outcome of a line without a request."""
    if not line.text.strip():
        return Skipped(line.number, EMPTY)
    return None if line.is_ended else Skipped(line.number, NOT_ENDED)


def parsed(line: Line, options: AdapterOptions, adapter: str, times: Times, **columns: Any) -> Parsed:
    """The invocation of a line. Columns that are None are derived from the times and the options."""
    known = {name: value for name, value in columns.items() if value is not None}
    derived = times.columns | {
        "span_id": id_from(adapter, options.node, options.source_id, line.number, line.text),
        "module_id": options.module or adapter,
        "instance_id": f"pid-{known['pid']}" if "pid" in known else None,
        "node": options.node,
        "stage": options.stage,
        "host_id": options.host_id,
    }
    return Parsed(line.number, Invocation(**derived | known))


def trace_of(values: Mapping[str, str], names: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The trace id and the parent span, from the first of the fields that has one."""
    for name in names:
        value = values.get(name, "")
        if parent := parse_traceparent(value):
            return parent.trace_id, parent.parent_id
        if "traceparent" not in name and (plain := plain_id(value)):
            return plain, None
    return None, None


def request_line(text: str) -> tuple[str | None, str | None]:
    """Method and path; text that is not a request line becomes the path."""
    if text in ("", "-"):
        return None, None
    parts = REQUEST.fullmatch(text)
    return (parts["method"], path_of(parts["target"])) if parts else (None, text_of(text))


def path_of(target: str) -> str | None:
    """Without host and query: a query may contain secrets."""
    if target in ("", "-"):
        return None
    try:
        path = urlsplit(target).path if "://" in target[:16] else target.partition("?")[0]
    except ValueError:
        path = target.partition("?")[0]
    return text_of(path)


def milliseconds(seconds: str) -> float | None:
    """`0.123`; a dash is None."""
    return round(float(seconds) * 1000, 6) if SECONDS.fullmatch(seconds) else None


def clf_time_ms(text: str) -> int:
    """`15/Nov/2025:15:28:01 +0100`, as in the Common Log Format. Raises ValueError."""
    parts = CLF.fullmatch(text)
    if not parts or parts[2] not in MONTHS:
        raise ValueError(f"{text[:64]!r} is not a time")
    year, hour, minute, second = (int(parts[number]) for number in (3, 4, 5, 6))
    offset = timedelta(hours=int(parts[8]), minutes=int(parts[9]))
    at = datetime(year, MONTHS[parts[2]], int(parts[1]), hour, minute, min(second, 59), tzinfo=UTC)
    return epoch_ms(at) - int(offset.total_seconds() * 1000) * (1 if parts[7] == "+" else -1)


def iso_time_ms(text: str, zone: tzinfo = UTC) -> int:
    """ISO 8601; without an offset it is in the zone. Raises ValueError."""
    try:
        at = datetime.fromisoformat(text)
        return epoch_ms(at if at.tzinfo else at.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:64]!r} is not a time") from error


def epoch_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
