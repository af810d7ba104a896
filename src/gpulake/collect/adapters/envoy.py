"""Envoy's access log: its default format, any format of %COMMAND% operators, and JSON. Times are starts of requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line, Outcome, Rejected
from gpulake.collect.tracing import access_log
from gpulake.collect.tracing.access_log import LineFormat, Part, Variable
from gpulake.collect.tracing.invocation import Times, integer_of, object_of, plain_id
from gpulake.core.errors import UsageError
from gpulake.core.packaged import packaged_toml

DEFAULT = (
    '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% '
    "%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    '"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"'
)
OPERATOR = re.compile(r"%(?P<word>[A-Z0-9_]+)(\((?P<argument>[^)]*)\))?(:(?P<most>\d+))?%")
NUMBER = r"(?:-|\d{1,19})?"
OPERATORS = packaged_toml("gpulake.collect.adapters", "envoy.toml")
TRACES = ("traceparent", "trace", "x-trace-id", "x-request-id")
WORDS = {"Y": r"\d{4}", "m": r"\d\d", "d": r"\d\d", "H": r"\d\d", "M": r"\d\d", "S": r"\d\d", "b": "[A-Z][a-z]{2}"}
WORDS |= {"z": r"[+-]\d{4}", "s": r"\d{1,11}", "f": r"\d{1,9}"}
WHOLE = {"F": "%Y-%m-%d", "T": "%H:%M:%S"}


@ADAPTERS.register("envoy")
class EnvoyLog:
    is_resumable = True

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        field = options.trace_field.lower()
        self._traces = (field,) if field else TRACES
        chosen = {field: (field, options.trace_field, field.replace("-", "_"))} if field else {}
        self._keys = OPERATORS["keys"] | chosen
        self._start: re.Pattern[str] | None = None  # of a time in a custom form
        self._text: LineFormat | None = None
        if options.format.lstrip().startswith("{"):
            self._keys = self._keys_of(object_of(options.format) or {})
        else:
            text = (options.format or DEFAULT).removesuffix("\\n").rstrip("\n")
            # Envoy escapes nothing: a line with a quote in a header does not match the format.
            self._text = LineFormat(self._parts_of(text), has_escapes=False)

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        for line in lines:
            yield access_log.no_request(line) or self._request(line)

    def _request(self, line: Line) -> Outcome:
        values = self._values(line.text)
        if values is None:
            return Rejected(line.number, "not a line of this format", line.text)
        try:
            times = self._times(values)
        except ValueError as error:
            return Rejected(line.number, str(error), line.text)
        trace_id, parent_id = access_log.trace_of(values, self._traces)
        upstream = integer_of(values.get("upstream", ""))
        return access_log.parsed(
            line,
            self._options,
            "envoy",
            times,
            trace_id=trace_id,
            parent_id=parent_id or plain_id(values.get("x-parent-span-id")) or plain_id(values.get("x-span-id")),
            method=plain_id(values.get("method")),
            path=access_log.path_of(values.get("path", "")),
            bytes_in=integer_of(values.get("bytes_in", "")),
            bytes_out=integer_of(values.get("bytes_out", "")),
            status=integer_of(values.get("status", "")),
            service_time_ms=None if upstream is None else float(upstream),
        )

    def _values(self, text: str) -> Mapping[str, str] | None:
        if not text.startswith("{"):
            return self._text.parse(text) if self._text else None
        content = object_of(text)
        if content is None:
            return None
        flat = _flat(content)
        return {name: flat[key] for name, keys in self._keys.items() for key in reversed(keys) if key in flat}

    def _times(self, values: Mapping[str, str]) -> Times:
        start = values.get("start", "")
        zone = self._options.zone
        began_ms = _time_ms(self._start, start, zone) if self._start else access_log.iso_time_ms(start, zone)
        duration = integer_of(values.get("duration", ""))
        if duration is None:
            raise ValueError(f"{values.get('duration', '')[:64]!r} is not a duration in milliseconds")
        return Times(began_ms, began_ms, began_ms + duration)

    def _parts_of(self, text: str) -> list[Part]:
        parts: list[Part] = []
        end = 0
        for found in OPERATOR.finditer(text):
            parts += [text[end : found.start()], self._variable(found)]
            end = found.end()
        parts.append(text[end:])
        names = {part.name for part in parts if isinstance(part, Variable)}
        if not names >= {"start", "duration"}:
            raise UsageError("the format has no time", "log %START_TIME% and %DURATION%")
        return parts

    def _variable(self, found: re.Match[str]) -> Variable:
        word, argument = found["word"], found["argument"]
        if word == "START_TIME" and argument:
            self._start = _time_pattern(argument)
        if word in ("REQ", "RESP") and argument:
            # The first of two headers may be missing; the second is always there.
            header = argument.upper().split("?")[-1]
            name = OPERATORS["names"].get(f"{word}({header})") or (
                header.lower() if word == "REQ" else f"response {header}"
            )
        else:
            name = OPERATORS["names"].get(word, found[0])
        is_number = name in ("duration", "status", "bytes_in", "bytes_out", "upstream")
        return Variable(name, NUMBER if is_number else "")

    def _keys_of(self, form: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The key of each of our names, by a json_format."""
        found = {key: OPERATOR.fullmatch(value) for key, value in _flat(form).items()}
        keys: dict[str, tuple[str, ...]] = {
            self._variable(operator).name: (key,) for key, operator in found.items() if operator
        }
        if not keys.keys() >= {"start", "duration"}:
            raise UsageError("the format has no time", 'give it as JSON: {"start": "%START_TIME%", ...}')
        return keys


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            # One level of nesting is enough: deeper values are not used.
            flat |= _flat(value, f"{key}.") if not before else {}
        elif value is not None:
            flat[before + key] = value if isinstance(value, str) else json.dumps(value)
    return flat


def _time_pattern(form: str) -> re.Pattern[str]:
    """The format of C++'s put_time, with Envoy's %s and %3f, as a regular expression."""
    for short, whole in WHOLE.items():
        form = form.replace(f"%{short}", whole)
    pattern = ""
    for literal, digits, letter in re.findall(r"([^%]+)|%(\d?)([A-Za-z])", form):
        if letter and (letter not in WORDS or f"(?P<{letter}>" in pattern):
            raise UsageError(
                f"%{digits}{letter} in %START_TIME({form})%", f"known: {', '.join('%' + w for w in WORDS)}"
            )
        word = rf"\d{{{digits}}}" if digits and letter == "f" else WORDS.get(letter, "")
        pattern += re.escape(literal) or f"(?P<{letter}>{word})"
    return re.compile(pattern, re.ASCII)


def _time_ms(pattern: re.Pattern[str], text: str, zone: tzinfo) -> int:
    found = pattern.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:64]!r} is not a time of this form")
    parts = {"m": "1", "d": "1", "H": "0", "M": "0", "S": "0"} | found.groupdict()
    fraction_ms = int(parts.get("f", "0").ljust(3, "0")[:3])
    if "s" in parts:
        return int(parts["s"]) * 1000 + fraction_ms
    month = access_log.MONTHS.get(parts["b"], 0) if "b" in parts else int(parts["m"])
    hour, minute, second = (int(parts[letter]) for letter in "HMS")
    at = datetime(int(parts.get("Y", "0")), month, int(parts["d"]), hour, minute, min(second, 59), tzinfo=UTC)
    if offset := parts.get("z"):
        zone = timezone(timedelta(minutes=int(offset[:3]) * 60 + int(offset[0] + offset[3:])))
    return access_log.epoch_ms(at.replace(tzinfo=zone)) + fraction_ms
