"""Access logs of proxies: lines by a format of words and variables, request lines, times, and the invocation of a line.

A line is parsed in linear time, whatever its content: a variable ends at the first occurrence of the text that follows
it in the format, without backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from gpulake.collect.adapters import EMPTY, NOT_ENDED, AdapterOptions, Line, Outcome, Parsed, Skipped
from gpulake.collect.tracing.invocation import Times, id_from, parse_traceparent, plain_id, row_of, text_of
from gpulake.core.errors import UsageError

MOST_LINE_CHARACTERS = 1 << 16
QUOTED = r'([^"]*+)'
QUOTED_ESCAPED = r'((?:[^"\\]|\\.)*+)'
ESCAPE = re.compile(r"(?:\\x[0-9A-Fa-f]{2})+|\\u[0-9A-Fa-f]{4}|\\.", re.DOTALL)
SHORT = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\b": "\b", "\\f": "\f"}


@dataclass(frozen=True)
class Variable:
    name: str
    pattern: str = ""  # of its values; empty: any text


Part: TypeAlias = str | Variable


class LineFormat:
    def __init__(self, parts: Sequence[Part], *, has_escapes: bool) -> None:
        self._has_escapes = has_escapes
        self._names: list[str] = []
        self._expression = re.compile(self._compiled(_merged(parts)), re.DOTALL)

    def parse(self, line: str) -> Mapping[str, str] | None:
        """Values by variable, unescaped; None if the line does not match the format."""
        if len(line) > MOST_LINE_CHARACTERS:
            return None
        found = self._expression.fullmatch(line)
        if not found:
            return None
        # A variable that occurs twice has the same value.
        values = dict(zip(self._names, found.groups(), strict=True))
        return {name: unescaped(value) for name, value in values.items()} if self._has_escapes else values

    def _compiled(self, parts: list[Part]) -> str:
        pattern = ""
        for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
            if isinstance(part, str):
                pattern += re.escape(part) if not isinstance(before, Variable) else ""
                continue
            if isinstance(after, Variable):
                raise UsageError(
                    f"nothing is between {part.name!r} and {after.name!r} in the format",
                    "adjacent values cannot be separated: put a blank between them",
                )
            self._names.append(part.name)
            is_quoted = isinstance(before, str) and before.endswith('"') and after.startswith('"')
            pattern += self._group(part, after, is_quoted)
        if not self._names:
            raise UsageError("the format has no variables", "give it as in the configuration, in quotes")
        return pattern

    def _group(self, variable: Variable, after: str, is_quoted: bool) -> str:
        if variable.pattern:
            inner = f"({variable.pattern})"
        elif is_quoted:
            inner = QUOTED_ESCAPED if self._has_escapes else QUOTED
        else:
            inner = "(.*?)" if after else "(.*)"
        # Atomic: once the following text is found, the variable is fixed.
        return f"(?>{inner}{re.escape(after)})"


def _merged(parts: Sequence[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part:
            merged.append(part)
    return merged


def unescaped(text: str) -> str:
    r"""`\x22`, `\"`, `\u00e9` as the characters they encode; consecutive bytes are UTF-8."""
    return ESCAPE.sub(_plain, text) if "\\" in text else text


def _plain(found: re.Match[str]) -> str:
    escape = found[0]
    if escape.startswith("\\x") and len(escape) > 2:
        return bytes.fromhex(escape.replace("\\x", "")).decode("utf-8", "replace")
    if escape.startswith("\\u") and len(escape) > 2:
        return chr(int(escape[2:], 16))
    return SHORT.get(escape, escape[1:])


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
    return Parsed(line.number, row_of("invocations", **derived | known))


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
