"""What access logs of proxies have in common: request lines, times, and how an invocation is made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from urllib.parse import urlsplit

from gpulake.collect.adapters import EMPTY, NOT_ENDED, Asked, Found, LeftOut, Line, Outcome, Rejected
from gpulake.collect.tracing.invocation import Invocation, Times, id_from, text_of
from gpulake.collect.tracing.trace_context import parse_traceparent, plain_id

REQUEST = re.compile(r"(?P<method>[A-Z][A-Z0-9_-]{0,31}) (?P<target>.*) HTTP/[\d.]{1,4}", re.DOTALL)
SECONDS = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)
MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * month : 3 * month + 3]: month + 1 for month in range(12)}
CLF = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII)


@dataclass(frozen=True)
class Request:
    """What a line says, in our words. The times are set by the adapter, which knows what they mean."""

    times: Times
    span: str | None = None
    trace: str | None = None
    cause: str | None = None
    method: str | None = None
    path: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    status: int | None = None
    pid: int | None = None
    rt_ms: float | None = None
    service_time_ms: float | None = None


def no_request(line: Line) -> Outcome | None:
    """Of a line that holds no request."""
    if not line.text.strip():
        return LeftOut(line.number, EMPTY)
    return None if line.is_ended else LeftOut(line.number, NOT_ENDED)


def found(line: Line, request: Request, asked: Asked, adapter: str) -> Found:
    times = request.times
    return Found(
        line.number,
        Invocation(
            trace_id=request.trace,
            span_id=request.span or id_from(adapter, asked.node, asked.source_id, line.number, line.text),
            parent_id=request.cause,
            module_id=asked.module or adapter,
            instance_id=None if request.pid is None else f"pid-{request.pid}",
            ts_enqueue=times.ts_enqueue,
            ts_start=times.ts_start,
            ts_end=times.ts_end,
            node=asked.node,
            stage=asked.stage,
            method=request.method,
            path=request.path,
            bytes_in=request.bytes_in,
            bytes_out=request.bytes_out,
            queue_time_ms=times.queue_time_ms,
            service_time_ms=times.service_time_ms if request.service_time_ms is None else request.service_time_ms,
            rt_ms=times.rt_ms if request.rt_ms is None else request.rt_ms,
            status=request.status,
            pid=request.pid,
            host_id=asked.host_id,
        ),
    )


def rejected(line: Line, reason: str) -> Rejected:
    return Rejected(line.number, reason, line.text)


def trace_of(values: Mapping[str, str], names: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The trace id and what caused this part, from the first of the fields that has one."""
    for name in names:
        value = values.get(name, "")
        if parent := parse_traceparent(value):
            return parent.trace_id, parent.parent_id
        if "traceparent" not in name and (plain := plain_id(value)):
            return plain, None
    return None, None


def request_line(text: str) -> tuple[str | None, str | None]:
    """Method and path; what is no request is kept as the path, as it is."""
    if text in ("", "-"):
        return None, None
    parts = REQUEST.fullmatch(text)
    return (parts["method"], path_of(parts["target"])) if parts else (None, text_of(text))


def path_of(target: str) -> str | None:
    """Without host and query: a query may hold anything, secrets too."""
    if target in ("", "-"):
        return None
    try:
        path = urlsplit(target).path if "://" in target[:16] else target.partition("?")[0]
    except ValueError:
        path = target.partition("?")[0]
    return text_of(path)


def milliseconds(seconds: str) -> float | None:
    """`0.123`; a dash is none."""
    return round(float(seconds) * 1000, 6) if SECONDS.fullmatch(seconds) else None


def clf_time_ms(text: str) -> int:
    """`15/Nov/2025:15:28:01 +0100`, as the Common Log Format has it; a ValueError where it is none."""
    parts = CLF.fullmatch(text)
    if not parts or parts[2] not in MONTHS:
        raise ValueError(f"{text[:64]!r} is not a time")
    day, month, year, hour, minute, second = (
        int(parts[1]),
        MONTHS[parts[2]],
        *(int(parts[number]) for number in range(3, 7)),
    )
    offset = timedelta(hours=int(parts[8]), minutes=int(parts[9]))
    at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    return epoch_ms(at) - int(offset.total_seconds() * 1000) * (1 if parts[7] == "+" else -1)


def iso_time_ms(text: str, zone: tzinfo = UTC) -> int:
    """ISO 8601; without an offset it is of the zone. A ValueError where it is none."""
    try:
        at = datetime.fromisoformat(text)
        return epoch_ms(at if at.tzinfo else at.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:64]!r} is not a time") from error


def epoch_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
