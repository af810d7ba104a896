"""OpenTelemetry traces as OTLP JSON: an export request per line, or one document.

Every span is an invocation. Keys may be camelCase or snake_case, attributes may have their current or former names.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulake.collect.adapters import (
    ADAPTERS,
    EMPTY,
    NOT_ENDED,
    AdapterOptions,
    Line,
    Outcome,
    Parsed,
    Rejected,
    Skipped,
)
from gpulake.collect.tracing import access_log
from gpulake.collect.tracing.invocation import Row, Times, integer_of, object_of, row_of, text_of

NO_SPANS = "exports without spans"
KEPT_CHARACTERS = 1 << 16
TRACE = re.compile(r"(?!0+$)[0-9a-f]{32}")
SPAN = re.compile(r"(?!0+$)[0-9a-f]{16}")
OUTGOING = {"3", "4", "SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER"}  # the request goes out, the response comes in
STATUSES = {1: 0, 2: 1, "STATUS_CODE_OK": 0, "STATUS_CODE_ERROR": 1}
METHOD = ("http.request.method", "http.method", "rpc.method")
TARGET = ("url.path", "http.target", "http.route", "url.full", "http.url")
STATUS = ("http.response.status_code", "http.status_code", "process.exit.code", "rpc.grpc.status_code")
REQUEST_BYTES = ("http.request.body.size", "http.request.size", "http.request_content_length")
RESPONSE_BYTES = ("http.response.body.size", "http.response.size", "http.response_content_length")
NODE = ("host.name", "k8s.node.name")
VALUES = ("stringValue", "intValue", "doubleValue", "boolValue")


@ADAPTERS.register("otlp")
class OtlpSpans:
    is_resumable = True

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        for line in lines:
            content = object_of(line.text)
            if content is not None:
                yield from self._spans(line.number, content)
            elif not line.text.strip():
                yield Skipped(line.number, EMPTY)
            elif line.number == 1 and line.text.lstrip().startswith("{"):
                yield from self._document(line, lines)
            elif not line.is_ended:
                yield Skipped(line.number, NOT_ENDED)
            else:
                yield Rejected(line.number, "not JSON", line.text)

    def _document(self, first: Line, lines: Iterator[Line]) -> Iterator[Outcome]:
        """One document over many lines, if the first line is no object; unless the second line is one: then the log was
        truncated in the middle of a line."""
        second = next(lines, None)
        if second is not None and (content := object_of(second.text)) is not None:
            yield Rejected(first.number, "not JSON", first.text)
            yield from self._spans(second.number, content)
            return
        rest = [] if second is None else [second, *lines]
        whole = "\n".join([first.text, *(line.text for line in rest)])
        document = object_of(whole)
        if document is not None:
            yield from self._spans(first.number, document)
        else:
            yield Rejected(first.number, "not JSON", whole[:KEPT_CHARACTERS])

    def _spans(self, number: int, content: Mapping[str, Any]) -> Iterator[Outcome]:
        is_empty = True
        for resource in _list(content, "resourceSpans"):
            about = _attributes(_get(resource, "resource"))
            scopes = _list(resource, "scopeSpans") or _list(resource, "instrumentationLibrarySpans")
            for scope in scopes:
                for span in _list(scope, "spans"):
                    is_empty = False
                    yield self._span(number, span, about)
        if is_empty:
            yield Skipped(number, NO_SPANS)

    def _span(self, number: int, span: Any, about: dict[str, str]) -> Outcome:
        try:
            return Parsed(number, self._invocation(span, about | _attributes(span)))
        except ValueError as error:
            return Rejected(number, str(error), json.dumps(span)[:KEPT_CHARACTERS])

    def _invocation(self, span: Any, attributes: Mapping[str, str]) -> Row:
        options = self._options
        began, ended = _nanoseconds(span, "startTimeUnixNano"), _nanoseconds(span, "endTimeUnixNano")
        times = Times(began // 1_000_000, began // 1_000_000, ended // 1_000_000)
        if ended < began:
            raise ValueError(f"it ends {began - ended} ns before it begins")
        took_ms = (ended - began) / 1e6
        pid = _count(attributes, "process.pid")
        host = _first(attributes, NODE)
        node = options.node if options.is_node_given or not host else host
        sizes = _count(attributes, *REQUEST_BYTES), _count(attributes, *RESPONSE_BYTES)
        bytes_in, bytes_out = reversed(sizes) if str(_get(span, "kind")) in OUTGOING else sizes
        target = _first(attributes, TARGET)
        code = _get(_get(span, "status"), "code")
        status = _count(attributes, *STATUS)
        return row_of(
            "invocations",
            trace_id=_id(span, "traceId", TRACE),
            span_id=_id(span, "spanId", SPAN),
            parent_id=_id(span, "parentSpanId", SPAN) if _get(span, "parentSpanId") else None,
            module_id=options.module or text_of(attributes.get("service.name", "")),
            instance_id=_first(attributes, ("service.instance.id",)) or (None if pid is None else f"pid-{pid}"),
            **times.columns | {"queue_time_ms": 0.0, "service_time_ms": took_ms, "rt_ms": took_ms},
            node=node,
            stage=options.stage,
            method=_first(attributes, METHOD),
            path=(access_log.path_of(target) if target else None) or text_of(_get(span, "name") or ""),
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            # Without an HTTP status or an exit code: 0 for OK, 1 for ERROR, None for unset.
            status=status if status is not None else STATUSES.get(code) if isinstance(code, int | str) else None,
            pid=pid,
            host_id=options.host_id if node == options.node else None,
        )


def _get(content: Any, key: str) -> Any:
    """By its name in camelCase or snake_case."""
    if not isinstance(content, dict):
        return None
    return content[key] if key in content else content.get(re.sub(r"([A-Z])", r"_\1", key).lower())


def _list(content: Any, key: str) -> Sequence[Any]:
    found = _get(content, key)
    return found if isinstance(found, list) else []


def _attributes(content: Any) -> dict[str, str]:
    """Plain values as text; lists and trees of values are not used."""
    attributes: dict[str, str] = {}
    for attribute in _list(content, "attributes"):
        value = _get(attribute, "value")
        plain = next((found for kind in VALUES if (found := _get(value, kind)) is not None), None)
        if isinstance(plain, str | int | float):
            attributes[str(_get(attribute, "key"))] = str(plain)
    return attributes


def _first(attributes: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((text_of(attributes[name]) for name in names if attributes.get(name)), None)


def _count(attributes: Mapping[str, str], *names: str) -> int | None:
    return next((count for name in names if (count := integer_of(attributes.get(name, ""))) is not None), None)


def _nanoseconds(span: Any, key: str) -> int:
    """Since the epoch, as digits or a number; zero means unknown."""
    count = integer_of(str(_get(span, key) or ""))
    if not count:
        raise ValueError(f"{key} is {str(_get(span, key))[:64]!r}")
    return count


def _id(span: Any, key: str, form: re.Pattern[str]) -> str:
    """Hexadecimal, as OTLP requires; some exporters write base64, as protobuf JSON does."""
    text = str(_get(span, key) or "").lower()
    if form.fullmatch(text):
        return text
    try:
        plain = base64.b64decode(str(_get(span, key) or ""), validate=True).hex()
    except (binascii.Error, ValueError):
        plain = ""
    if not form.fullmatch(plain):
        raise ValueError(f"{key} is {text[:64]!r}")
    return plain
