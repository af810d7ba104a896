"""What adapters appended, in a parsed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.collect.cctf.parse import parse
from gpulake.collect.rows import ProcessEnd
from recorded_runs import (
    BOOT,
    EPOCH_MS,
    block_of,
    cells,
    document_in,
    parse_session,
    process_of,
    rows_in,
    sample_of,
    write_lines,
    write_session,
)

AT = EPOCH_MS


def test_invocations_of_all_files_are_sorted_and_named(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "events.nginx.7.jsonl",
        [{"ts_enqueue": 30, "ts_end": 40, "pid": 2}, {"ts_start": 10, "ts_end": 90, "node": "other", "stage": "cloud"}],
    )
    write_lines(tmp_path / "events.exec.8.jsonl", [{"ts_enqueue": 30, "ts_end": 35, "pid": 1}])
    write_lines(tmp_path / "invocations.jsonl", [{"ts_end": 20, "pid": 3}])
    parse_session(tmp_path, block_of(1000, []))
    assert cells(rows_in(tmp_path, "invocations"), "ts_end", "pid", "node", "stage", "host_id") == [
        (90, None, "other", "cloud", None),
        (20, 3, "n1", "edge", "0123456789ab"),
        (35, 1, "n1", "edge", "0123456789ab"),
        (40, 2, "n1", "edge", "0123456789ab"),
    ]


def test_bad_lines_are_set_aside_with_their_reason_and_a_torn_one_is_distinguished(tmp_path: Path) -> None:
    lines = ['{"ts_end": 1}', "{not json}", "[1]", '{"ts_start": 4}', '{"ts_end": 5, "pid": "x", "cpuset": 3}']
    path = tmp_path / "events.asgi.1.jsonl"
    path.write_text("\n".join(lines) + '\n{"ts_end": 6, "pi')
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "invocations"), "ts_end", "pid") == [(1, None), (5, None)]
    assert [(row["line"], row["text"]) for row in rows_in(tmp_path, "rejected")] == [
        (2, "{not json}"),
        (3, "[1]"),
        (4, '{"ts_start": 4}'),
        (6, '{"ts_end": 6, "pi'),
    ]
    assert [row["reason"] for row in rows_in(tmp_path, "rejected")][1:] == [
        "it is no object",
        "ts_end is missing",
        "its end is missing: it was being written",
    ]
    facts = audit["parse"]
    assert facts["torn_lines"] == {"events.asgi.1.jsonl": 1}
    assert facts["values_of_wrong_type"] == {"invocations.pid": 1}
    assert facts["unknown_fields"] == {"invocations.cpuset": 1}
    path.write_text('{"ts_end": 1}\n')
    parse(tmp_path)
    assert not (tmp_path / "cctf/rejected.jsonl").exists()


def test_a_repeated_row_counts_once(tmp_path: Path) -> None:
    span = {"trace_id": "t", "span_id": "s", "ts_end": 5}
    write_lines(
        tmp_path / "events.otlp.1.jsonl",
        [span, {**span, "ts_end": 6}, {**span, "span_id": "s2"}, {**span, "trace_id": "u"}, span],
    )
    write_lines(tmp_path / "events.exec.2.jsonl", [{"ts_end": 5, "pid": 4}, {"ts_end": 5, "pid": 4}])
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "invocations"), "trace_id", "span_id", "ts_end") == [
        ("t", "s", 5),
        ("t", "s2", 5),
        ("u", "s", 5),
        (None, None, 5),
    ]
    assert (audit["parse"]["duplicate_events"], audit["parse"]["contradicting_spans"]) == (3, 1)


def test_a_pid_is_the_process_that_it_was_at_the_time(tmp_path: Path) -> None:
    write_session(
        tmp_path,
        block_of(1000, [process_of(5, 10), sample_of(5, 1)]),
        block_of(20_000, [ProcessEnd(5), process_of(5, 1950), sample_of(5, 1)]),
        block_of(30_000, [ProcessEnd(5)]),
        block_of(60_000, []),
    )
    calls = [(AT + 900, AT + 1500), (AT + 21_000, AT + 22_000), (AT - 9000, AT - 8000), (AT + 50_000, AT + 51_000)]
    write_lines(
        tmp_path / "events.exec.1.jsonl",
        [{"ts_start": start, "ts_end": end, "pid": 5} for start, end in calls] + [{"ts_end": AT, "pid": 6}],
    )
    audit = parse(tmp_path)
    assert cells(rows_in(tmp_path, "invocations"), "ts_end", "pid", "proc_id") == [
        (AT - 8000, 5, None),
        (AT, 6, None),
        (AT + 1500, 5, f"{BOOT}-10-5"),
        (AT + 22_000, 5, f"{BOOT}-1950-5"),
        (AT + 51_000, 5, None),
    ]
    assert audit["processes"]["first_unmatched"] == [{"node": "n1", "host_id": "0123456789ab", "pid": 6}]
    assert audit["processes"]["pids_matched_ratio"] == 0.5


def test_a_load_driver_tells_its_requests_in_its_own_words(tmp_path: Path) -> None:
    said = {
        "seq": 0,
        "code": 200,
        "timestamp": "2023-11-14T22:13:20.123456789Z",
        "latency": 4_500_000,
        "bytes_out": 3,
        "bytes_in": 8,
        "method": "GET",
        "url": "http://n1:8080/work?cpu_ms=5",
        "headers": {"X-Trace-Id": ["abc"]},
    }
    write_lines(tmp_path / "events_client.jsonl", [said])
    parse(tmp_path)
    (row,) = rows_in(tmp_path, "invocations")
    assert {name: value for name, value in row.items() if value is not None} == {
        "trace_id": "abc",
        "module_id": "client",
        "ts_enqueue": AT + 123,
        "ts_start": AT + 123,
        "ts_end": AT + 127,
        "node": "unknown",
        "method": "GET",
        "path": "/work",
        "bytes_in": 8,
        "bytes_out": 3,
        "queue_time_ms": 0,
        "service_time_ms": 4.5,
        "rt_ms": 4.5,
        "status": 200,
    }


def test_placements_name_the_modules_that_no_inventory_does(tmp_path: Path) -> None:
    start = {"ts": 5, "app_id": "app", "module_id": "svc", "instance_id": "i", "node_id": "n1", "event": "start"}
    write_lines(tmp_path / "placement_events.jsonl", [{**start, "ts": 9, "event": "stop"}, start, start])
    write_lines(tmp_path / "events.asgi.1.jsonl", [{"ts_end": 6, "module_id": "svc"}, {"ts_end": 7, "module_id": "a"}])
    parse(tmp_path)
    assert cells(rows_in(tmp_path, "placement_events"), "ts", "event", "node_id") == [
        (5, "start", "n1"),
        (9, "stop", "n1"),
    ]
    module = {"name": "a", "type": "MODULE", "resources": None}
    assert document_in(tmp_path, "module_inventory.json") == [
        {"app_id": None, "module_id": "a", **module},
        {"app_id": "app", "module_id": "svc", **module, "name": "svc"},
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    ["ts_end", "ts_start", "ts_enqueue", "pid", "span_id", "node", "host_id", "timestamp", "headers"]
)


@pytest.mark.slow
@settings(max_examples=cases(60))
@given(rows=st.lists(st.dictionaries(FIELDS, VALUES, max_size=6), max_size=8), tail=st.binary(max_size=20))
def test_every_line_is_a_row_a_duplicate_or_set_aside(
    rows: list[dict[str, object]], tail: bytes, tmp_path_factory: object
) -> None:
    run: Path = tmp_path_factory.mktemp("run")  # type: ignore[attr-defined]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode() + tail
    for name in ("events.any.1.jsonl", "events_client.jsonl"):
        (run / name).write_bytes(text)
    audit = parse(run)
    facts = audit["parse"]
    lines = 2 * len([line for line in text.decode("utf-8-sig", "replace").split("\n") if line.strip()])
    kept = audit["files"].get("invocations", {"rows": 0})["rows"]
    assert kept + facts["duplicate_events"] + sum(reject["lines"] for reject in facts["rejected_lines"]) == lines
    assert parse(run) == audit
