"""nginx's access log: its time is the end of the request, and its format is whatever the configuration says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.collect.adapters import AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.adapters.nginx import NginxLog
from gpulake.collect.tracing.invocation import Row, row_of
from gpulake.core.errors import UsageError

END_MS = 1763216881000  # 15 November 2025, 14:28:01 UTC
COMBINED = '10.0.0.1 - - [15/Nov/2025:15:28:01 +0100] "{request}" 200 512 "-" "curl/8"'
TRACKED = COMBINED + " 312 0.250 {trace}"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def read(text: str, **asked: Any) -> Outcome:
    (found,) = NginxLog(AdapterOptions(node="web1", **asked)).read(iter([Line(1, text)]))
    return found


def invocation(text: str, **asked: Any) -> Row:
    found = read(text, **asked)
    assert isinstance(found, Parsed), found
    return found.invocation


def test_the_time_in_the_log_is_the_end_of_the_request() -> None:
    text = TRACKED.format(request="GET /a?secret=1 HTTP/1.1", trace="t-1")
    found = invocation(text, stage="edge", host_id="h", source_id="s")
    assert found == row_of(
        "invocations",
        trace_id="t-1",
        span_id=found["span_id"],
        module_id="nginx",
        ts_enqueue=END_MS - 250,
        ts_start=END_MS - 250,
        ts_end=END_MS,
        node="web1",
        stage="edge",
        method="GET",
        path="/a",
        bytes_in=312,
        bytes_out=512,
        queue_time_ms=0.0,
        service_time_ms=250.0,
        rt_ms=250.0,
        status=200,
        host_id="h",
    )


def test_without_a_request_time_the_start_is_unknown() -> None:
    found = invocation(COMBINED.format(request="GET / HTTP/1.1"))
    assert (found["ts_start"], found["ts_end"], found["service_time_ms"]) == (None, END_MS, None)


def test_a_dash_is_no_trace_id() -> None:
    assert invocation(TRACKED.format(request="GET / HTTP/1.1", trace="-"))["trace_id"] is None


def test_traceparent_gives_trace_and_parent() -> None:
    found = invocation(f"1763216881.042 0.003 {PARENT}", format="$msec $request_time $http_traceparent")
    assert (found["trace_id"], found["parent_id"]) == (PARENT[3:35], PARENT[36:52])
    assert (found["ts_start"], found["ts_end"]) == (END_MS + 39, END_MS + 42)


def test_a_broken_traceparent_is_no_trace_id() -> None:
    found = invocation(f"1763216881.042 0.003 {PARENT.upper()}", format="$msec $request_time $http_traceparent")
    assert (found["trace_id"], found["parent_id"]) == (None, None)


@pytest.mark.parametrize("field", ["X-Job", "http_x_job", "$http_x_job"])
def test_the_header_of_the_trace_id_can_be_chosen(field: str) -> None:
    form = '$msec "$http_x_trace_id" "$http_x_job"'
    assert invocation('1763216881.042 "a" "b"', format=form, trace_field=field)["trace_id"] == "b"


@pytest.mark.parametrize("field", ["request_id", "$request_id"])
def test_a_variable_that_is_no_header_can_hold_the_trace_id(field: str) -> None:
    form = '$msec "$http_x_trace_id" "$request_id"'
    assert invocation('1763216881.042 "a" "b"', format=form, trace_field=field)["trace_id"] == "b"


@pytest.mark.parametrize(
    ("time", "form", "expected_ms"),
    [
        ("1763216881.042", "$msec", END_MS + 42),
        ("2025-11-15T15:28:01+01:00", "$time_iso8601", END_MS),
        ("15/Nov/2025:08:58:01 -0530", "$time_local", END_MS),
    ],
)
def test_every_time_of_nginx_is_understood(time: str, form: str, expected_ms: int) -> None:
    assert invocation(time, format=form)["ts_end"] == expected_ms


def test_the_finest_time_counts() -> None:
    found = invocation("[15/Nov/2025:15:28:01 +0100] 1763216881.999", format="[$time_local] $msec")
    assert found["ts_end"] == END_MS + 999


def test_the_whole_directive_is_understood() -> None:
    directive = """log_format timed escape=json '{"t":"$msec","r":"$request",'  # the first half
        '"s":$status,"u":"$upstream_response_time","p":"${pid}"}';"""
    found = invocation(
        r'{"t":"1763216881.000","r":"POST \/x\u00e9 HTTP/1.1","s":201,"u":"0.010, 0.020 : -","p":"77"}',
        format=directive,
    )
    assert (found["method"], found["path"], found["status"], found["pid"]) == ("POST", "/xé", 201, 77)
    assert (found["service_time_ms"], found["instance_id"]) == (30.0, "pid-77")


@pytest.mark.parametrize(
    ("request_line", "method", "path"),
    [
        (r"GET /a\x22b\x5Cc HTTP/1.1", "GET", '/a"b\\c'),
        (r"GET /\xC3\xA9 HTTP/1.1", "GET", "/é"),
        (r"GET /\xFF HTTP/1.1", "GET", "/\N{REPLACEMENT CHARACTER}"),
        (r"GET /with blank?q HTTP/1.1", "GET", "/with blank"),
        (r"GET http://proxied/p?q HTTP/1.1", "GET", "/p"),
        (r"\x16\x03\x01\x00", None, "\x16\x03\x01\x00"),
        ("<script>alert(1)</script>", None, "<script>alert(1)</script>"),
        ("-", None, None),
        ("", None, None),
    ],
)
def test_what_clients_send_is_data(request_line: str, method: str | None, path: str | None) -> None:
    found = invocation(TRACKED.format(request=request_line, trace="-"))
    assert (found["method"], found["path"]) == (method, path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "not a line of this log_format"),
        (COMBINED.format(request='GET /" 200 HTTP/1.1'), "not a line of this log_format"),
        ("x" * 70_000, "not a line of this log_format"),
    ],
)
def test_what_is_no_line_of_the_format_is_rejected(text: str, reason: str) -> None:
    assert read(text) == Rejected(1, reason, text)


def test_a_time_that_does_not_exist_is_rejected() -> None:
    text = COMBINED.format(request="GET / HTTP/1.1").replace("15/Nov", "31/Nov")
    assert read(text) == Rejected(1, "day is out of range for month", text)


def test_a_request_that_took_longer_than_time_is_rejected() -> None:
    text = "0.100 5.000"
    assert read(text, format="$msec $request_time") == Rejected(1, "a time out of range: -4900 ms", text)


def test_a_line_without_an_end_is_left_for_the_next_time() -> None:
    log = NginxLog(AdapterOptions(node="web1"))
    text = TRACKED.format(request="GET / HTTP/1.1", trace="abc")
    assert list(log.read(iter([Line(1, text, is_ended=False)]))) == [Skipped(1, "the last line has no end yet")]


@pytest.mark.parametrize("form", ["$status", "$msec$status", "no variables"])
def test_a_format_that_cannot_work_is_refused(form: str) -> None:
    with pytest.raises(UsageError):
        NginxLog(AdapterOptions(node="web1", format=form))


def test_the_same_line_in_two_places_is_two_requests() -> None:
    text = TRACKED.format(request="GET / HTTP/1.1", trace="-")
    found = [
        one
        for one in NginxLog(AdapterOptions(node="web1")).read(iter([Line(1, text), Line(2, text)]))
        if isinstance(one, Parsed)
    ]
    assert len({one.invocation["span_id"] for one in found}) == 2


@given(user=st.text(max_size=40), agent=st.text(max_size=40))
def test_whatever_nginx_escapes_comes_back(user: str, agent: str) -> None:
    def escaped(text: str) -> str:
        raw = text.encode("utf-8", "replace")
        return "".join(f"\\x{byte:02X}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in raw)

    form = '[$time_local] "$http_x_trace_id" "$request_uri"'
    text = f'[15/Nov/2025:15:28:01 +0100] "{escaped(user)}" "{escaped("/" + agent)}"'
    expected = ("/" + agent).encode("utf-8", "replace").decode().partition("?")[0]
    assert invocation(text, format=form)["path"] == expected
