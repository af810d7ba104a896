"""OTLP's JSON: spans as invocations, in both spellings of keys and both generations of attributes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gpulake.collect.adapters import ADAPTERS, NOT_ENDED, AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.rundir import RunDir
from gpulake.collect.tracing.adapting import LogImport
from gpulake.collect.tracing.invocation import Row, row_of

TRACE, SPAN, CAUSE = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173"
BEGAN_MS = 1544712660000


def attributes(**values: str | int) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue"}
    return [
        {"key": name.replace("__", "."), "value": {kinds[type(value)]: str(value)}} for name, value in values.items()
    ]


def span(**changes: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": CAUSE,
        "name": "GET /jobs",
        "kind": 2,
        "startTimeUnixNano": f"{BEGAN_MS}000000",
        "endTimeUnixNano": f"{BEGAN_MS + 12}500000",
    } | changes


def export(*spans: Any, resource: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": resource or []}, "scopeSpans": [{"spans": list(spans)}]}]}


def read(*texts: str, **asked: Any) -> list[Outcome]:
    lines = (Line(number, text) for number, text in enumerate(texts, start=1))
    return list(ADAPTERS.get("otlp")(AdapterOptions(**({"node": "n1"} | asked))).read(lines))


def only(one: dict[str, Any], resource: list[dict[str, Any]] | None = None, **asked: Any) -> Row:
    (found,) = read(json.dumps(export(one, resource=resource)), **asked)
    assert isinstance(found, Parsed), found
    return found.invocation


def test_a_span_of_a_server_is_an_invocation() -> None:
    reported = attributes(
        http__request__method="POST",
        url__path="/jobs",
        http__response__status_code=201,
        http__request__body__size=7,
        http__response__body__size=9,
    )
    about = attributes(service__name="api", service__instance__id="api-0", host__name="web1", process__pid=42)
    assert only(span(attributes=reported), about, stage="edge", host_id="h") == row_of(
        "invocations",
        trace_id=TRACE,
        span_id=SPAN,
        parent_id=CAUSE,
        module_id="api",
        instance_id="api-0",
        ts_enqueue=BEGAN_MS,
        ts_start=BEGAN_MS,
        ts_end=BEGAN_MS + 12,
        node="web1",
        stage="edge",
        method="POST",
        path="/jobs",
        bytes_in=7,
        bytes_out=9,
        queue_time_ms=0.0,
        service_time_ms=12.5,
        rt_ms=12.5,
        status=201,
        pid=42,
        host_id=None,  # web1 is not the node of this run
    )


def test_the_older_names_are_understood() -> None:
    reported = attributes(http__method="GET", http__target="/old?q=1", http__status_code=404)
    found = only(span(attributes=reported))
    assert (found["method"], found["path"], found["status"]) == ("GET", "/old", 404)


def test_snake_case_is_understood() -> None:
    value = {"key": "service.name", "value": {"string_value": "api"}}
    reported = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_span_id": CAUSE,
        "start_time_unix_nano": BEGAN_MS * 1_000_000,
        "end_time_unix_nano": (BEGAN_MS + 1) * 1_000_000,
    }
    content = {"resource_spans": [{"resource": {"attributes": [value]}, "scope_spans": [{"spans": [reported]}]}]}
    (found,) = read(json.dumps(content))
    assert isinstance(found, Parsed)
    assert (found.invocation["parent_id"], found.invocation["module_id"], found.invocation["rt_ms"]) == (
        CAUSE,
        "api",
        1.0,
    )


def test_what_a_client_asks_goes_out_and_what_is_answered_comes_in() -> None:
    reported = attributes(http__request__body__size=7, http__response__body__size=9)
    for kind in (3, "SPAN_KIND_CLIENT"):
        found = only(span(kind=kind, attributes=reported))
        assert (found["bytes_in"], found["bytes_out"]) == (9, 7)


@pytest.mark.parametrize(("code", "status"), [(0, None), (1, 0), (2, 1), ("STATUS_CODE_ERROR", 1), ([], None)])
def test_a_span_that_is_no_request_succeeds_or_fails(code: Any, status: int | None) -> None:
    found = only(span(status={"code": code}))
    assert (found["status"], found["path"], found["method"]) == (status, "GET /jobs", None)


def test_the_node_is_the_users_then_the_spans_then_the_runs() -> None:
    about = attributes(host__name="web1")
    assert only(span(), about, is_node_given=True)["node"] == "n1"
    assert only(span(), about)["node"] == "web1"
    assert only(span())["node"] == "n1"


def test_ids_may_be_in_base64_and_capitals() -> None:
    coded = base64.b64encode(bytes.fromhex(TRACE)).decode()
    assert only(span(traceId=coded, spanId=SPAN.upper()))["trace_id"] == TRACE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"traceId": "0" * 32}, "traceId is"),
        ({"spanId": None}, "spanId is"),
        ({"parentSpanId": "xyz"}, "parentSpanId is"),
        ({"endTimeUnixNano": "0"}, "endTimeUnixNano is"),
        ({"endTimeUnixNano": f"{BEGAN_MS - 1}000000"}, "it ends 1 ms before it begins"),
        ({"startTimeUnixNano": f"{BEGAN_MS}000001", "endTimeUnixNano": f"{BEGAN_MS}000000"}, "it ends 1 ns before"),
        ({"startTimeUnixNano": "9" * 30}, "startTimeUnixNano is"),
    ],
)
def test_a_span_that_cannot_be_read_costs_only_itself(change: dict[str, Any], reason: str) -> None:
    bad, good = read(json.dumps(export(span(**change), span())))
    assert isinstance(bad, Rejected)
    assert bad.reason.startswith(reason)
    assert json.loads(bad.text) == span(**change)
    assert isinstance(good, Parsed)


def test_a_document_over_many_lines_is_read_as_one() -> None:
    found = read(*json.dumps(export(span(), span(spanId=CAUSE)), indent=2).split("\n"))
    assert [type(one) for one in found] == [Parsed, Parsed]


def test_lines_that_are_no_export_are_reported() -> None:
    assert read('{"resourceMetrics":[]}', "", "[1]", '{"resourceSpans": 3}') == [
        Skipped(1, "exports without spans"),
        Skipped(2, "empty lines"),
        Rejected(3, "not JSON", "[1]"),
        Skipped(4, "exports without spans"),
    ]


@pytest.mark.parametrize("cut", [10, 19])
def test_a_log_that_begins_in_the_middle_of_a_line_loses_that_line_alone(cut: int) -> None:
    exported = json.dumps(export(span()))
    assert exported[19] == "{"
    outcomes = read(exported[cut:], exported, "{", exported)
    assert [(type(one), one.line_number) for one in outcomes] == [
        (Rejected, 1),
        (Parsed, 2),
        (Rejected, 3),
        (Parsed, 4),
    ]


def test_a_file_that_is_something_else_is_not_kept_in_memory() -> None:
    lines = (Line(number, "GET / HTTP/1.1") for number in range(1, 4))
    outcomes = ADAPTERS.get("otlp")(AdapterOptions(node="n1")).read(lines)
    assert [next(outcomes), next(lines).number] == [Rejected(1, "not JSON", "GET / HTTP/1.1"), 2]


def test_a_line_that_is_still_written_is_left_for_the_next_time() -> None:
    exported = json.dumps(export(span()))
    lines = iter([Line(1, exported), Line(2, exported[:20], is_ended=False)])
    _, last = ADAPTERS.get("otlp")(AdapterOptions(node="n1")).read(lines)
    assert last == Skipped(2, NOT_ENDED)


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], {"attributes": 3}, [[{"spans": [1]}]], {"a": {"b": []}}])
def test_no_shape_of_json_breaks_it(value: Any) -> None:
    read(json.dumps({"resourceSpans": value}), json.dumps(export(value)), json.dumps(export(span(attributes=value))))
    read(json.dumps({"resourceSpans": [{"resource": value, "scopeSpans": value}]}))
    read(json.dumps(export(span(status=value, kind=value, name=value, parentSpanId=value))))


def test_a_file_that_grew_is_read_on_and_a_document_is_read_again(tmp_path: Path) -> None:
    adapting = LogImport("otlp", RunDir(tmp_path / "run"), AdapterOptions(node="n1"))
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps(export(span())) + "\n")
    assert adapting.read(lines).invocations == 1
    with lines.open("a") as more:
        more.write(json.dumps(export(span(spanId=CAUSE))) + "\n")
    assert adapting.read(lines).invocations == 1

    document = tmp_path / "document.json"
    for spans in ([span()], [span(), span(spanId=CAUSE)]):
        document.write_text(json.dumps(export(*spans), indent=1))
        assert adapting.read(document).invocations == len(spans)
