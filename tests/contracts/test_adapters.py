"""What holds for every adapter, whatever its format. A new adapter adds an example here and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.rundir import RunDir
from gpulake.collect.tracing.adapting import LogImport, Tally
from gpulake.collect.tracing.invocation import Row, row_of
from gpulake.core.tables import cctf_tables


class Example(NamedTuple):
    before: tuple[str, ...]  # lines that a file begins with
    good: tuple[str, ...]  # one invocation each
    bad: str
    parts: tuple[str, ...]  # what hostile lines are put together from


TIMES = {"startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000"}
SPANS = [{"traceId": "a" * 32, "spanId": letter * 16} | TIMES for letter in "bc"]
EXAMPLES = {
    "nginx": Example(
        (),
        (
            '10.0.0.1 - - [15/Nov/2025:15:28:01 +0100] "GET /a HTTP/1.1" 200 5 "-" "curl" 312 0.250 t1',
            '10.0.0.1 - bob [15/Nov/2025:15:28:01 +0100] "GET /b HTTP/1.1" 200 5 "-" "curl"',
        ),
        "10.0.0.1 - - [15/Nov/2025:15:28:61",
        ("10.0.0.1", " - ", "[15/Nov/2025:15:28:01 +0100]", '"', "GET /a HTTP/1.1", " 200 5 ", "\\x", "-", "0.250"),
    ),
    "envoy": Example(
        (),
        (
            '[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "r1" "x" "tcp://a:80"',
            '{"start_time":"2016-04-15T20:17:00.310Z","duration":12,"method":"GET","path":"/x","request_id":"r2"}',
        ),
        '[yesterday] "POST /a HTTP/2" 204',
        ("[2016-04-15T20:17:00.310Z]", '"', "POST /a HTTP/2", " 204 - 154 0 226 100 ", "{", '"duration":', "-1", "}"),
    ),
    "sacct": Example(
        ("JobID|State|Submit|Start|End|NodeList",),
        (
            "7|COMPLETED|2024-05-01T09:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|n[1-2]",
            "8|FAILED|2024-05-01T09:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|n3",
        ),
        "9|FAILED|2024-05-01T09:00:00|soon|2024-05-01T11:00:00|n3",
        ("7", "|", "FAILED", "2024-05-01T09:00:00", "2024-02-31T09:00:00", "n[1-9999999]", "n[", "Unknown"),
    ),
    "otlp": Example(
        (),
        tuple(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) for span in SPANS),
        "{",
        (
            '{"resourceSpans":[{"scopeSpans":[{"spans":[',
            "{}",
            '{"traceId":',
            '"' + "a" * 32 + '"',
            "]}]}]}",
            ",",
            "1e999",
        ),
    ),
}


@pytest.fixture(params=list(ADAPTERS), scope="module")
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def outcomes(name: str, texts: list[str], **asked: Any) -> list[Outcome]:
    lines = (Line(number, text) for number, text in enumerate(texts, start=1))
    return list(ADAPTERS.get(name)(AdapterOptions(node="n1", **asked)).read(lines))


def test_a_row_has_exactly_the_columns_of_its_file() -> None:
    row = row_of("placement_events", ts=1, event="start")
    assert list(row) == list(cctf_tables()["placement_events"].column_names)
    with pytest.raises(AssertionError, match=r"placement_events has no column \['node'\]"):
        row_of("placement_events", node="n1")


def test_good_lines_are_found_and_bad_ones_kept(name: str) -> None:
    example = EXAMPLES[name]
    found = outcomes(name, [*example.before, *example.good, example.bad])
    assert [type(one) for one in found] == [Skipped] * len(example.before) + [Parsed, Parsed, Rejected]
    assert all(one.text == example.bad for one in found if isinstance(one, Rejected))


def test_twice_is_once(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in [*example.before, *example.good, example.bad]))
    run = RunDir(tmp_path / "run")
    adapting = LogImport(name, run, AdapterOptions(node="n1"))
    first, second = adapting.read(log), adapting.read(log)
    assert (first.invocations, first.rejected, first.was_read_before) == (2, 1, False)
    assert second == Tally(str(log), was_read_before=True)
    assert len(written(run.path, f"events.{name}.*.jsonl")) == 2


def test_what_is_read_again_has_the_same_ids(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in [*example.before, *example.good]))
    for run in ("a", "b"):
        LogImport(name, RunDir(tmp_path / run), AdapterOptions(node="n1")).read(log)
    log.rename(tmp_path / "log.1")
    LogImport(name, RunDir(tmp_path / "c"), AdapterOptions(node="n1")).read(tmp_path / "log.1")
    first, second, third = (written(tmp_path / run, "events.*") for run in ("a", "b", "c"))
    assert first == second == third
    assert len({row["span_id"] for row in first}) == 2


def test_rejected_lines_are_kept_with_file_line_and_reason(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in [*example.before, *example.good, example.bad]))
    LogImport(name, RunDir(tmp_path / "run"), AdapterOptions(node="n1")).read(log)
    (kept,) = written(tmp_path / "run", f"rejected.{name}.jsonl")
    assert kept.pop("reason")
    assert kept == {"file": str(log), "line_number": len(example.before) + 3, "text": example.bad}


@pytest.mark.slow
@given(data=st.data())
def test_no_text_breaks_an_adapter_counts_add_up_and_times_are_in_order(name: str, data: st.DataObject) -> None:
    example = EXAMPLES[name]
    text = st.text(st.characters(exclude_characters="\n"))
    hostile = st.lists(st.sampled_from(example.parts) | text, max_size=12).map("".join)
    cut = st.sampled_from(example.good).flatmap(lambda line: st.integers(0, len(line)).map(lambda at: line[:at]))
    texts = data.draw(st.lists(hostile | cut | st.sampled_from(example.good), max_size=8))
    found = outcomes(name, [*example.before, *texts])
    if name in ("nginx", "envoy"):
        assert [one.line_number for one in found] == list(range(1, len(texts) + 1))
    if name == "sacct":
        # A row may have many lines, and a line without text may be none of it; what is left over is said.
        numbers = [one.line_number for one in found]
        assert numbers == sorted(set(numbers))
        assert (len(found) > 1) == any(texts)
    for one in found:
        if isinstance(one, Parsed):
            assert_is_sound(one.invocation)


def assert_is_sound(invocation: Row) -> None:
    kinds = {"text": str, "integer": int, "number": float}
    for column, kind in cctf_tables()["invocations"].column_types.items():
        assert invocation[column] is None or isinstance(invocation[column], kinds[kind]), column
    assert all(invocation[column] is not None for column in cctf_tables()["invocations"].required)
    times = [at for at in (invocation["ts_enqueue"], invocation["ts_start"], invocation["ts_end"]) if at is not None]
    assert times == sorted(times)
    spans = (invocation["queue_time_ms"], invocation["service_time_ms"], invocation["rt_ms"], invocation["cpu_time_ms"])
    assert all(span is None or span >= 0 for span in spans)


def written(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]
