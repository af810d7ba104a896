"""sacct's text as invocations and placements; the dumps of a real cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.rundir import RunDir
from gpulake.collect.tracing.adapting import LogImport, Tally
from gpulake.collect.tracing.invocation import Row, row_of

NINE_MS = 1714554000000  # 1 May 2024, 09:00 UTC
HOUR_MS = 3_600_000
HEADER = "JobID|JobName|State|Submit|Start|End|NodeList|ExitCode|TotalCPU"
DONE = "2024-05-01T09:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00"


def read(*rows: str, header: str = HEADER, zone: str = "UTC") -> list[Outcome]:
    lines = (Line(number, text) for number, text in enumerate([header, *rows], start=1))
    found = list(ADAPTERS.get("sacct")(AdapterOptions(node="login", host_id="h", zone=ZoneInfo(zone))).read(lines))
    assert found[0] == Skipped(1, "header rows")
    return found[1:]


def only(row: str, header: str = HEADER, zone: str = "UTC") -> Parsed:
    (found,) = read(row, header=header, zone=zone)
    assert isinstance(found, Parsed), found
    return found


def test_a_job_is_an_invocation_on_its_first_node_and_a_placement_on_each() -> None:
    found = only(f"7_3|train|COMPLETED|{DONE}|gpu[07-08]|0:0|1-00:00:01.500")

    def event(at_ms: int, node: str, word: str) -> Row:
        return row_of(
            "placement_events",
            ts=at_ms,
            app_id="train",
            module_id="train",
            instance_id="7_3",
            node_id=node,
            event=word,
            stage=None,
            host_id=None,
            pid=None,
        )

    assert found == Parsed(
        2,
        row_of(
            "invocations",
            trace_id="7_3",
            span_id=found.invocation["span_id"],
            module_id="train",
            instance_id="7_3",
            ts_enqueue=NINE_MS,
            ts_start=NINE_MS + HOUR_MS,
            ts_end=NINE_MS + 2 * HOUR_MS,
            node="gpu07",
            method="CLI",
            path="train",
            cpu_time_ms=86_401_500.0,
            queue_time_ms=float(HOUR_MS),
            service_time_ms=float(HOUR_MS),
            rt_ms=2.0 * HOUR_MS,
            status=0,
            state="COMPLETED",
        ),
        (
            event(NINE_MS + HOUR_MS, "gpu07", "start"),
            event(NINE_MS + 2 * HOUR_MS, "gpu07", "stop"),
            event(NINE_MS + HOUR_MS, "gpu08", "start"),
            event(NINE_MS + 2 * HOUR_MS, "gpu08", "stop"),
        ),
    )


@pytest.mark.parametrize(("word", "status"), [("0:0", 0), ("3:0", 3), ("0:9", 137), ("", None), ("x", None)])
def test_a_signal_has_the_exit_code_of_a_shell(word: str, status: int | None) -> None:
    assert only(f"7|t|FAILED|{DONE}|n1|{word}|").invocation["status"] == status


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"7.batch|b|COMPLETED|{DONE}|n1|0:0|", "steps of jobs"),
        ("7|t|RUNNING|2024-05-01T09:00:00|2024-05-01T10:00:00|Unknown|n1|0:0|", "jobs that have not ended"),
        ("7|t|PENDING|2024-05-01T09:00:00|Unknown|Unknown|None assigned|0:0|", "jobs that have not ended"),
        (f"7|t|CANCELLED by 1000|{DONE}|None assigned|0:0|", "jobs that were never given a node"),
    ],
)
def test_what_did_not_run_as_a_job_is_left_out_and_said(row: str, reason: str) -> None:
    assert read(row) == [Skipped(2, reason)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x|t|FAILED|||2024-05-01T11:00:00|n1||", "'x' is not the id of a job or a step"),
        ("7|t|FAILED||2024-05-01T12:00:00|2024-05-01T11:00:00|n1||", "it ends 3600000 ms before it begins"),
        ("7|t|FAILED|2024-05-01T10:30:00|2024-05-01T10:00:00|2024-05-01T11:00:00|n1||", "it begins 1800000 ms before"),
        ("7|t|FAILED||soon|2024-05-01T11:00:00|n1||", "'soon' is not a time"),
        ("7|t|FAILED|||2024-02-30T11:00:00|n1||", "day is out of range for month"),
        (f"7|t|FAILED|{DONE}|n[1||", "'n[1' is not a list of hosts"),
        (f"7|t|FAILED|{DONE}|n1|0:0|forever", "'forever' is not a time span"),
        ("7|t|FAILED", "3 fields where 9 are expected"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_the_reason(row: str, reason: str) -> None:
    (found,) = read(row)
    assert isinstance(found, Rejected)
    assert found.reason.startswith(reason)
    assert found.text == row


def test_times_are_of_the_clusters_zone() -> None:
    assert only(f"7|t|FAILED|{DONE}|n1||", zone="Asia/Shanghai").invocation["ts_enqueue"] == NINE_MS - 8 * HOUR_MS


def test_a_job_over_the_hour_that_comes_twice_does_not_end_before_it_begins() -> None:
    row = "7|t|FAILED||2024-10-27T02:50:00|2024-10-27T02:10:00|n1||"
    assert only(row, zone="Europe/Berlin").invocation["service_time_ms"] == 20 * 60_000.0


@pytest.mark.parametrize(("elapsed", "minutes"), [("3600", 60), ("01:00:00", 60), ("0", 0), ("7200", 120), ("", 0)])
def test_the_run_time_tells_which_of_the_two_hours_is_meant(elapsed: str, minutes: int) -> None:
    end = "02:30:00" if minutes < 120 else "03:30:00"
    header = f"{HEADER}|{'Elapsed' if ':' in elapsed else 'ElapsedRaw'}"
    row = f"7|t|FAILED||2024-10-27T02:30:00|2024-10-27T{end}|n1|||{elapsed}"
    assert only(row, header, zone="Europe/Berlin").invocation["service_time_ms"] == minutes * 60_000.0


def test_a_delimiter_in_a_name_costs_no_job() -> None:
    assert only(f"7|a|b|FAILED|{DONE}|n1||").invocation["module_id"] == "a|b"


def test_without_node_names_a_job_is_on_the_node_of_the_run() -> None:
    found = only("7|FAILED|2024-05-01T11:00:00", header="JobID|State|End").invocation
    assert (found["node"], found["host_id"], found["ts_start"], found["ts_end"]) == (
        "login",
        "h",
        None,
        NINE_MS + 2 * HOUR_MS,
    )


def test_the_same_job_in_two_dumps_is_the_same() -> None:
    plain = only(f"7|t|FAILED|{DONE}|n1|1:0|").invocation
    other = only(f"7|FAILED|{DONE}|n1", header="JobID|State|Submit|Start|End|NodeList").invocation
    again = only(f"7|t|FAILED|{DONE.replace('T10', 'T09')}|n1|1:0|").invocation  # it was started again
    assert plain["span_id"] == other["span_id"] != again["span_id"]


def test_text_without_a_header_is_rejected_line_by_line() -> None:
    lines = iter([Line(1, f"7|t|FAILED|{DONE}|n1||")])
    (found,) = ADAPTERS.get("sacct")(AdapterOptions(node="login")).read(lines)
    assert isinstance(found, Rejected)


@pytest.mark.real
def test_every_real_dump_is_read_and_what_is_broken_is_counted(real_data: Path, tmp_path: Path) -> None:
    adapting = LogImport("sacct", RunDir(tmp_path), AdapterOptions(node="login"))
    tallies = {path.name: adapting.read(path) for path in sorted((real_data / "slurm").glob("sample-sacct-*.txt"))}
    steps, header = "steps of jobs", "header rows"
    expected = {
        "sample-sacct-fake-line-break.txt": Tally("", 2, 0, {header: 1, steps: 2}),
        "sample-sacct-multiple-multiline.txt": Tally("", 4, 0, {header: 1, steps: 2}),
        "sample-sacct-output-invalid-utf8.txt": Tally("", 2, 0, {header: 1, steps: 9}),
        "sample-sacct-output-midnight-edge-case.txt": Tally("", 306, 0, {header: 1, steps: 880}),
        "sample-sacct-output-with-invalid-lines.txt": Tally("", 0, 1, {header: 1}),
        "sample-sacct-running-output-large.txt": Tally("", 0, 0, {header: 1, steps: 5040}),
    }
    for name, tally in expected.items():
        found = tallies[name]
        assert (found.invocations, found.rejected, found.left_out) == (
            tally.invocations,
            tally.rejected,
            tally.left_out,
        ), name
    assert len(tallies) == 14
    assert Counter(tally.rejected for tally in tallies.values()) == {0: 13, 1: 1}
