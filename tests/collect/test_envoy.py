"""Envoy's access log: its time is the start of the request, and its format is text or JSON."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

import pytest

from gpulake.collect.adapters import AdapterOptions, Line, Outcome, Parsed, Rejected
from gpulake.collect.adapters.envoy import EnvoyLog
from gpulake.collect.tracing.invocation import Row, row_of
from gpulake.core.errors import UsageError

# The example of Envoy's documentation.
DOCUMENTED = (
    '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" '
    '"nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"'
)
START_MS = 1460751420310
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def read(text: str, **asked: Any) -> Outcome:
    (found,) = EnvoyLog(AdapterOptions(node="edge1", **asked)).read(iter([Line(1, text)]))
    return found


def invocation(text: str, **asked: Any) -> Row:
    found = read(text, **asked)
    assert isinstance(found, Parsed), found
    return found.invocation


EXPECTED = row_of(
    "invocations",
    trace_id="cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2",
    module_id="envoy",
    ts_enqueue=START_MS,
    ts_start=START_MS,
    ts_end=START_MS + 226,
    node="edge1",
    method="POST",
    path="/api/v1/locations",
    bytes_in=154,
    bytes_out=0,
    queue_time_ms=0.0,
    service_time_ms=100.0,
    rt_ms=226.0,
    status=204,
)


def test_the_time_in_the_log_is_the_start_of_the_request() -> None:
    found = invocation(DOCUMENTED)
    assert found == EXPECTED | {"span_id": found["span_id"]}


def test_traceparent_goes_before_the_request_id() -> None:
    form = "%START_TIME% %DURATION% %REQ(X-REQUEST-ID)% %REQ(TRACEPARENT)%\\n"
    found = invocation(f"2016-04-15T20:17:00.310Z 5 r-1 {PARENT}", format=form)
    assert (found["trace_id"], found["parent_id"]) == (PARENT[3:35], PARENT[36:52])


def test_the_header_of_the_trace_id_can_be_chosen() -> None:
    form = "%START_TIME% %DURATION% %REQ(X-REQUEST-ID)% %REQ(X-JOB):12%"
    assert invocation("2016-04-15T20:17:00.310Z 5 r-1 j-1", format=form, trace_field="X-Job")["trace_id"] == "j-1"


@pytest.mark.parametrize(
    ("form", "time"),
    [
        ("(%s.%3f)", "1460751420.310"),
        ("(%Y/%m/%dT%H:%M:%S.%3f%z)", "2016/04/15T22:17:00.310+0200"),
        ("(%d/%b/%Y:%T.%6f %z)", "15/Apr/2016:15:47:00.310000 -0430"),
        ("(%F %T.%9f)", "2016-04-15 20:17:00.310000000"),
        ("", "2016-04-15T20:17:00.310Z"),
    ],
)
def test_a_time_in_any_form_is_understood(form: str, time: str) -> None:
    assert invocation(f"[{time}] 5", format=f"[%START_TIME{form}%] %DURATION%")["ts_start"] == START_MS


def test_a_time_without_an_offset_is_of_the_zone_that_is_given() -> None:
    zone = timezone(timedelta(hours=8))
    found = invocation("[2016-04-16 04:17:00] 5", format="[%START_TIME(%F %T)%] %DURATION%", zone=zone)
    assert found["ts_start"] == START_MS - 310


def test_json_with_the_usual_keys_needs_no_format() -> None:
    reported = {
        "start_time": "2016-04-15T20:17:00.310Z",
        "duration": "226",
        "method": "GET",
        "path": "/x?token=1",
        "response_code": 503,
        "bytes_received": 0,
        "bytes_sent": "19",
        "request_id": "r-1",
        "upstream_service_time": None,
    }
    found = invocation(json.dumps(reported))
    changes: dict[str, Any] = {"trace_id": "r-1", "method": "GET", "path": "/x", "status": 503}
    sizes: dict[str, Any] = {"bytes_in": 0, "bytes_out": 19, "service_time_ms": 226.0}
    assert found == EXPECTED | {"span_id": found["span_id"], **changes, **sizes}


def test_json_with_keys_of_its_own_is_read_by_its_format() -> None:
    form = {"when": "%START_TIME(%s%3f)%", "took": "%DURATION%", "who": {"id": "%REQ(TRACEPARENT)%"}, "x": "const"}
    reported = {"when": "1460751420310", "took": 7, "who": {"id": PARENT}, "x": "const"}
    found = invocation(json.dumps(reported), format=json.dumps(form))
    assert (found["ts_start"], found["ts_end"], found["trace_id"]) == (START_MS, START_MS + 7, PARENT[3:35])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "not a line of this format"),
        (DOCUMENTED.replace("nsq2http", 'nsq" "2http'), "not a line of this format"),
        ('{"start_time":', "not a line of this format"),
        ("{" * 100_000, "not a line of this format"),
        (DOCUMENTED.replace(" 226 ", " - "), "'-' is not a duration in milliseconds"),
        (DOCUMENTED.replace("2016-04-15", "2016-04-31"), "'2016-04-31T20:17:00.310Z' is not a time"),
        ('{"start_time":"2016-04-15T20:17:00Z","duration":-1}', "'-1' is not a duration in milliseconds"),
    ],
)
def test_what_is_no_line_of_the_format_is_rejected(text: str, reason: str) -> None:
    assert read(text) == Rejected(1, reason, text)


@pytest.mark.parametrize(
    "form", ["%REQ(:PATH)%", '{"a": "%DURATION%"}', "{", "%START_TIME(%Q)% %DURATION%", "%START_TIME%%DURATION%"]
)
def test_a_format_that_cannot_work_is_refused(form: str) -> None:
    with pytest.raises(UsageError):
        EnvoyLog(AdapterOptions(node="edge1", format=form))
