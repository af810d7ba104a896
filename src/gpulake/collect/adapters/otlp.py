"""OpenTelemetry traces as OTLP writes them in JSON: a request to export in each line, or one document.

Every span is an invocation. Keys may be in camelCase or snake_case, attributes have their names of today or of before.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulake.collect.adapters import ADAPTERS, EMPTY, NOT_ENDED, Asked, Found, LeftOut, Line, Outcome, Rejected
from gpulake.collect.tracing import access_log
from gpulake.collect.tracing.invocation import Invocation, Times, integer_of, text_of
from gpulake.collect.tracing.strict_json import object_of

NO_SPANS = "exports without spans"
KEPT_CHARACTERS = 1 << 16
TRACE = re.compile(r"(?!0+$)[0-9a-f]{32}")
SPAN = re.compile(r"(?!0+$)[0-9a-f]{16}")
OUTGOING = {"3", "4", "SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER"}  # what they ask goes out, what is answered comes in
STATUSES = {1: 0, 2: 1, "STATUS_CODE_OK": 0, "STATUS_CODE_ERROR": 1}
METHOD = ("http.request.method", "http.method", "rpc.method")
TARGET = ("url.path", "http.target", "http.route", "url.full", "http.url")
STATUS = ("http.response.status_code", "http.status_code", "process.exit.code", "rpc.grpc.status_code")
ASKED_BYTES = ("http.request.body.size", "http.request.size", "http.request_content_length")
ANSWERED_BYTES = ("http.response.body.size", "http.response.size", "http.response_content_length")
NODE = ("host.name", "k8s.node.name")
VALUES = ("stringValue", "intValue", "doubleValue", "boolValue")


@ADAPTERS.register("otlp")
class OtlpSpans:
    is_resumable = True

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        for line in lines:
            content = object_of(line.text)
            if content is not None:
                yield from self._spans(line.number, content)
            elif not line.text.strip():
                yield LeftOut(line.number, EMPTY)
            elif line.number == 1 and line.text.lstrip().startswith("{"):
                yield from self._document(line, lines)
            elif not line.is_ended:
                yield LeftOut(line.number, NOT_ENDED)
            else:
                yield Rejected(line.number, "not JSON", line.text)

    def _document(self, first: Line, lines: Iterator[Line]) -> Iterator[Outcome]:
        """From a first line that is no object by itself: one document over many lines, unless the second one is an
        object. Then the log was cut in the middle of a line."""
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
            yield LeftOut(number, NO_SPANS)

    def _span(self, number: int, span: Any, about: dict[str, str]) -> Outcome:
        try:
            return Found(number, self._invocation(span, about | _attributes(span)))
        except ValueError as error:
            return Rejected(number, str(error), json.dumps(span)[:KEPT_CHARACTERS])

    def _invocation(self, span: Any, told: Mapping[str, str]) -> Invocation:
        asked = self._asked
        began, ended = _nanoseconds(span, "startTimeUnixNano"), _nanoseconds(span, "endTimeUnixNano")
        times = Times(began // 1_000_000, began // 1_000_000, ended // 1_000_000)
        if ended < began:
            raise ValueError(f"it ends {began - ended} ns before it begins")
        took_ms = (ended - began) / 1e6
        pid = _count(told, "process.pid")
        host = _first(told, NODE)
        node = asked.node if asked.is_node_given or not host else host
        sizes = _count(told, *ASKED_BYTES), _count(told, *ANSWERED_BYTES)
        bytes_in, bytes_out = reversed(sizes) if str(_get(span, "kind")) in OUTGOING else sizes
        target = _first(told, TARGET)
        code = _get(_get(span, "status"), "code")
        status = _count(told, *STATUS)
        return Invocation(
            trace_id=_id(span, "traceId", TRACE),
            span_id=_id(span, "spanId", SPAN),
            parent_id=_id(span, "parentSpanId", SPAN) if _get(span, "parentSpanId") else None,
            module_id=asked.module or text_of(told.get("service.name", "")),
            instance_id=_first(told, ("service.instance.id",)) or (None if pid is None else f"pid-{pid}"),
            ts_enqueue=times.ts_enqueue,
            ts_start=times.ts_start,
            ts_end=times.ts_end,
            node=node,
            stage=asked.stage,
            method=_first(told, METHOD),
            path=(access_log.path_of(target) if target else None) or text_of(_get(span, "name") or ""),
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            queue_time_ms=0.0,
            service_time_ms=took_ms,
            rt_ms=took_ms,
            # Where there is neither an HTTP status nor an exit code: 0 for OK, 1 for ERROR, none for unset.
            status=status if status is not None else STATUSES.get(code) if isinstance(code, int | str) else None,
            pid=pid,
            host_id=asked.host_id if node == asked.node else None,
        )


def _get(content: Any, key: str) -> Any:
    """By its name in camelCase or in snake_case."""
    if not isinstance(content, dict):
        return None
    return content[key] if key in content else content.get(re.sub(r"([A-Z])", r"_\1", key).lower())


def _list(content: Any, key: str) -> Sequence[Any]:
    found = _get(content, key)
    return found if isinstance(found, list) else []


def _attributes(content: Any) -> dict[str, str]:
    """Plain values as text; lists and trees of values are no field of ours."""
    told: dict[str, str] = {}
    for attribute in _list(content, "attributes"):
        value = _get(attribute, "value")
        plain = next((found for kind in VALUES if (found := _get(value, kind)) is not None), None)
        if isinstance(plain, str | int | float):
            told[str(_get(attribute, "key"))] = str(plain)
    return told


def _first(told: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((text_of(told[name]) for name in names if told.get(name)), None)


def _count(told: Mapping[str, str], *names: str) -> int | None:
    return next((count for name in names if (count := integer_of(told.get(name, ""))) is not None), None)


def _nanoseconds(span: Any, key: str) -> int:
    """Since the epoch, as digits or a number; zero stands for none."""
    count = integer_of(str(_get(span, key) or ""))
    if not count:
        raise ValueError(f"{key} is {str(_get(span, key))[:64]!r}")
    return count


def _id(span: Any, key: str, form: re.Pattern[str]) -> str:
    """Hexadecimal, as OTLP wants it; some write the bytes in base64, as other JSON of protobuf does."""
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
