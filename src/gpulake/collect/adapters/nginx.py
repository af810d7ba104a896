"""nginx's access log, in any `log_format`. The time of a line is the end of the request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line, Outcome, Rejected
from gpulake.collect.tracing import access_log
from gpulake.collect.tracing.access_log import LineFormat, Part, Variable
from gpulake.collect.tracing.invocation import Times, integer_of, plain_id
from gpulake.core.errors import UsageError

COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
FORMATS = {"combined": COMBINED, "tracekit": f"{COMBINED} $request_length $request_time $http_x_trace_id"}
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
DIRECTIVE = re.compile(r"\s*log_format\s+\S+\s+(?:escape=\w+\s+)?(?P<strings>.*?);?\s*", re.DOTALL)
STRING = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([^\s'\"#]+)|#[^\n]*", re.DOTALL)
TIMES = ("msec", "time_iso8601", "time_local")
TRACES = ("http_traceparent", "http_x_trace_id", "otel_trace_id", "http_x_request_id", "request_id")
NUMBER = r"(?:-|\d{1,20}(?:\.\d{1,9})?)?"  # a dash or nothing: no value
# One number per upstream server: commas between tries, colons between groups of servers.
NUMBERS = rf"{NUMBER}(?:(?:, | : ){NUMBER}){{0,99}}+"
PATTERNS = {
    "time_local": r"[^\]\"]{1,64}",
    "status": r"(?:-|\d{1,5})?",
    "upstream_response_time": NUMBERS,
    **dict.fromkeys(("msec", "request_time", "request_length", "body_bytes_sent", "bytes_sent", "pid"), NUMBER),
}


@ADAPTERS.register("nginx")
class NginxLog:
    is_resumable = True

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        field = _variable_of(options.trace_field)
        self._traces = (f"http_{field}", field) if field else TRACES
        given = options.format
        # By default the longer format is tried first: its lines do not match the other.
        texts = [FORMATS.get(given, given)] if given else [FORMATS["tracekit"], FORMATS["combined"]]
        self._formats = [LineFormat(parts_of(text), has_escapes=True) for text in texts]

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        for line in lines:
            yield access_log.no_request(line) or self._request(line)

    def _request(self, line: Line) -> Outcome:
        values = next((match for form in self._formats if (match := form.parse(line.text))), None)
        if values is None:
            return Rejected(line.number, "not a line of this log_format", line.text)
        try:
            times = _times(values, self._options)
        except ValueError as error:
            return Rejected(line.number, str(error), line.text)
        method, path = access_log.request_line(values.get("request", ""))
        trace_id, parent_id = access_log.trace_of(values, self._traces)
        parents = ("http_x_parent_span_id", "http_x_span_id", "otel_parent_id")
        return access_log.parsed(
            line,
            self._options,
            "nginx",
            times,
            span_id=plain_id(values.get("otel_span_id")),
            trace_id=trace_id,
            parent_id=parent_id or next((found for name in parents if (found := plain_id(values.get(name)))), None),
            method=method or plain_id(values.get("request_method")),
            path=path or access_log.path_of(values.get("request_uri") or values.get("uri", "")),
            bytes_in=integer_of(values.get("request_length", "-")),
            bytes_out=integer_of(values.get("body_bytes_sent") or values.get("bytes_sent", "-")),
            status=integer_of(values.get("status", "-")),
            pid=integer_of(values.get("pid", "-")),
            rt_ms=access_log.milliseconds(values.get("request_time", "-")),
            service_time_ms=_sum_ms(values.get("upstream_response_time", "-")),
        )


def parts_of(text: str) -> list[Part]:
    """A format as words and variables; the whole directive is accepted too."""
    directive = DIRECTIVE.fullmatch(text)
    if directive:
        strings = STRING.findall(directive["strings"])
        text = "".join(re.sub(r"\\(.)", r"\1", one or two) or bare for one, two, bare in strings)
    parts: list[Part] = []
    end = 0
    for found in VARIABLE.finditer(text):
        name = found[1] or found[2]
        parts += [text[end : found.start()], Variable(name, PATTERNS.get(name, ""))]
        end = found.end()
    parts.append(text[end:])
    names = {part.name for part in parts if isinstance(part, Variable)}
    if names and not names.intersection(TIMES):
        raise UsageError("the log_format has no time", f"log one of: {', '.join(f'${name}' for name in TIMES)}")
    return parts


def _times(values: Mapping[str, str], options: AdapterOptions) -> Times:
    if (end := access_log.milliseconds(values.get("msec", "-"))) is not None:
        ended_ms = round(end)
    elif iso := values.get("time_iso8601"):
        ended_ms = access_log.iso_time_ms(iso, options.zone)
    else:
        ended_ms = access_log.clf_time_ms(values.get("time_local", ""))
    took = access_log.milliseconds(values.get("request_time", "-"))
    began_ms = None if took is None else ended_ms - round(took)
    return Times(began_ms, began_ms, ended_ms)


def _sum_ms(text: str) -> float | None:
    known = [one for word in re.split(r", | : ", text) if (one := access_log.milliseconds(word)) is not None]
    return round(sum(known), 6) if known else None


def _variable_of(header: str) -> str:
    """X-Trace-Id and $http_x_trace_id alike; $request_id is itself."""
    return header.lower().replace("-", "_").removeprefix("$").removeprefix("http_")
