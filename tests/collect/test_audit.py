"""What the files of a run are worth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.collect.cctf.audit import audit
from gpulake.collect.cctf.parse import parse
from gpulake.collect.cctf.reports import audit_report
from gpulake.collect.rows import NodeEvent
from gpulake.core.errors import InputError
from recorded_runs import EPOCH_MS, block_of, host_of, write_lines, write_session

NO_VIOLATIONS = {"behind": 0, "not_later": 0, "steps_back": 0, "negative_intervals": 0}


def slim_run(folder: Path) -> Path:
    """As the later era of the reference writes it: no node in any row."""
    cts = folder / "CTS"
    write_lines(
        cts / "proc_metrics.jsonl",
        [
            {"ts_ms": 1000, "pid": 5, "dt_ms": 0, "cpu_ms": 0, "rss_kb": 9},
            {"ts_ms": 2000, "pid": 5, "dt_ms": -1, "cpu_ms": 1, "rss_kb": None},
            {"ts_ms": 2000, "pid": 5, "dt_ms": 1, "cpu_ms": 1, "rss_kb": 9},
            {"ts_ms": 1500, "pid": 6, "dt_ms": 1, "cpu_ms": 1, "rss_kb": 9},
            "no json",
        ],
    )
    write_lines(
        cts / "invocations.jsonl",
        [
            {"trace_id": "a", "pid": 5, "ts_enqueue": 1, "ts_start": 2, "ts_end": 3},
            {"trace_id": "b", "pid": 7, "ts_enqueue": 5, "ts_start": 4, "ts_end": 6},
            {"trace_id": "c", "pid": 7, "ts_enqueue": 6, "ts_start": 6, "ts_end": 6},
        ],
    )
    (cts / "nodes.json").write_text('[{"node_id": "vm0", "stage": "cloud"}]')
    return folder


def test_order_missing_values_and_unmatched_pids_are_counted_in_anybodys_files(tmp_path: Path) -> None:
    found = audit(slim_run(tmp_path))
    processes, calls = found["files"]["proc_metrics"], found["files"]["invocations"]
    assert processes["violations"] == {"behind": 1, "not_later": 1, "steps_back": 0, "negative_intervals": 1}
    assert calls["violations"] == NO_VIOLATIONS | {"steps_back": 1}
    assert processes["missing"]["rss_kb"] == {"count": 1, "ratio": 0.25}
    assert processes["missing"]["pid"] == {"count": 0, "ratio": 0.0}
    assert (processes["rows"], processes["bad_lines"], processes["first_bad_lines"]) == (
        4,
        1,
        [{"line": 5, "reason": "it is no JSON"}],
    )
    assert [(one["kind"], one["row"], one["ts_ms"]) for one in processes["first_violations"]] == [
        ("negative_interval", 2, 2000),
        ("not_later", 3, 2000),
        ("behind", 4, 1500),
    ]
    assert found["processes"] == {
        "distinct_processes": 2,
        "distinct_pids_sampled": 2,
        "distinct_pids_of_invocations": 2,
        "pids_matched_ratio": 0.5,
        "invocations_with_pid": 3,
        "invocations_matched_ratio": 0.333333,
        "unmatched_pids": 1,
        "first_unmatched": [{"node": "vm0", "host_id": None, "pid": 7}],
    }
    assert (found["first_ms"], found["last_ms"], found["parse"]) == (1, 2000, None)


def test_gaps_and_clock_steps_are_reported(tmp_path: Path) -> None:
    times = [*range(1000, 9000, 1000), *range(60_000, 63_000, 1000)]
    step = NodeEvent(5000, "clock_step", "clock", None, None, "set by -2 s", "collector")
    write_session(
        tmp_path, *[block_of(at, [host_of(at, at), step] if at == 5000 else [host_of(at, at)]) for at in times]
    )
    found = parse(tmp_path)
    base = found["first_ms"] - 1000
    assert found["gaps"] == {
        "count": 1,
        "silent_ms": 52_000,
        "interval_ms": {"n1 (0123456789ab)": 1000},
        "first": [{"node": "n1 (0123456789ab)", "from_ms": base + 8000, "to_ms": base + 60_000}],
    }
    assert found["clock_steps"] == 1


def test_another_interval_after_a_restart_is_no_row_of_gaps(tmp_path: Path) -> None:
    quick = [*range(1000, 3000, 100), *range(60_000, 70_000, 1000)]
    times = [*quick, 75_000, 76_000, *range(76_100, 78_000, 100), 79_000]
    write_session(tmp_path, *[block_of(at, [host_of(at, at)]) for at in times])
    gaps = parse(tmp_path)["gaps"]
    assert [(gap["from_ms"] - EPOCH_MS, gap["to_ms"] - EPOCH_MS) for gap in gaps["first"]] == [
        (2900, 60_000),
        (69_000, 75_000),
        (77_900, 79_000),
    ]
    assert (gaps["count"], gaps["silent_ms"]) == (3, 57_100 + 6_000 + 1_100)


def test_a_later_audit_still_knows_what_parse_saw(tmp_path: Path) -> None:
    write_session(tmp_path, block_of(1000, [host_of(1, 1)]))
    parsed = parse(tmp_path)
    assert audit(tmp_path) == audit(tmp_path / "cctf") == parsed
    assert json.loads((tmp_path / "cctf/audit.json").read_text()) == parsed
    assert (tmp_path / "cctf/audit_report.md").read_text() == audit_report(parsed)
    (tmp_path / "cctf/audit.json").write_text('{"parse": {"blocks": 1}}')
    assert audit(tmp_path)["parse"] is None


@pytest.mark.real
def test_the_files_that_the_reference_wrote_are_audited(real_data: Path, tmp_path: Path) -> None:
    shutil.copytree(real_data / "sysstat_run/cctf", tmp_path / "cctf", copy_function=shutil.copyfile)
    found = audit(tmp_path)
    assert (found["nodes"], found["files"]) == ([{"node_id": "vm0", "stage": "cloud", "host_id": None}], {})


def test_names_in_the_report_can_neither_break_lines_nor_mark_up(tmp_path: Path) -> None:
    evil = "# x\n<script>|`"
    write_session(tmp_path, block_of(1000, [host_of(1, 1)]), node_id=evil, stage="*")
    report = audit_report(parse(tmp_path))
    assert (
        "- Node: \\# x\N{REPLACEMENT CHARACTER}\\<script\\>\\|\\`, stage \\*, host 0123456789ab" in report.splitlines()
    )


def test_the_command_prints_the_report_or_json_and_an_error_for_no_run(tmp_path: Path) -> None:
    slim_run(tmp_path)
    page = CliRunner().invoke(root, ["collect", "audit", str(tmp_path)])
    lines = page.stdout.splitlines()
    assert "- Pids of invocations that were sampled: 50.00%" in lines
    assert "- Pids not sampled: 1, first: 7 on vm0" in lines
    assert "- proc_metrics: 1 dt\\_ms \\< 0" in lines
    as_json = CliRunner().invoke(root, ["collect", "audit", str(tmp_path), "--json"])
    assert json.loads(as_json.stdout) == audit(tmp_path)
    (tmp_path / "raw").mkdir()
    with pytest.raises(InputError, match="no parsed files"):
        audit(tmp_path / "raw")
