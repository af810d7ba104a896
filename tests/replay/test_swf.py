"""The Standard Workload Format: what lands is what is written again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import InputError
from gpulake.flow import Flow
from gpulake.flow.advising import export_swf
from gpulake.formats.swf import FIELDS, comment, is_row

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
JOBS = """\
1 0 10 100 8 -1 -1 8 -1 -1 1 1 1 1 -1 -1 -1 -1
2 5.5 -1 -1 -1 -1 -1 16 -1 1024 5 2 1 -1 -1 -1 -1 -1
3 60 0 3600 4 -1 -1 4 -1 -1 0 1 2 -1 -1 -1 -1 -1
4 100 0 50 2 -1 -1 2 -1 -1 1 1 1 -1 -1 -1 -1 -1
5 200 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
"""
# Job 4 was swapped out: its parts have lines of their own.
PARTS = """\
4 100 0 20 2 -1 -1 2 -1 -1 2 1 1 -1 -1 -1 -1 -1
4 -1 10 30 2 -1 -1 2 -1 -1 3 1 1 -1 -1 -1 -1 -1
"""
HEADER = f"""\
;
; Version: 2.2
; Computer: Some SP2 (see Note)
; UnixStartTime: {BEGIN.timestamp():.0f}
; Note: what a header says
"""


def landed(folder: Path, text: str) -> Flow:
    folder.mkdir()
    (folder / "Tiger.swf").write_text(text)
    flow = Flow(Config(lake=folder / "lake", threads=1))
    flow.land([folder / "Tiger.swf"])
    flow.build()
    return flow


@pytest.mark.slow
def test_jobs_land_and_go_out_as_they_came_in(tmp_path: Path) -> None:
    flow = landed(tmp_path / "in", f"{HEADER}; Processors: GPUs\n{JOBS}{PARTS}")
    rows = rows_of(
        flow.lake,
        "SELECT cluster_id, job_id, user_id, group_id, account_id, status, submitted_at, started_at, ended_at"
        " FROM silver_jobs ORDER BY job_id",
    )
    after = [BEGIN + timedelta(seconds=seconds) for seconds in (0, 10, 110, 5.5, 60, 3660, 100, 150, 200)]
    assert [tuple(row.values()) for row in rows] == [
        ("tiger", "1", "1", "1/1", "1", "succeeded", *after[0:3]),
        ("tiger", "2", "2", "2", "1", "cancelled", after[3], None, None),
        ("tiger", "3", "1", "1", "2", "failed", after[4], after[4], after[5]),
        ("tiger", "4", "1", "1", "1", "succeeded", after[6], after[6], after[7]),
        ("tiger", "5", None, None, None, "unknown", after[8], None, None),
    ]
    held = rows_of(flow.lake, "SELECT gpus, held_seconds FROM silver_holdings ORDER BY gpus")
    assert held == [
        {"gpus": 2.0, "held_seconds": 50.0},
        {"gpus": 4.0, "held_seconds": 3600.0},
        {"gpus": 8.0, "held_seconds": 100.0},
    ]
    summary = export_swf(flow, None, "GPUs", tmp_path / "out.swf")
    assert summary == {"jobs": 5, "left_out": {}, "rounded": 0}
    lines = (tmp_path / "out.swf").read_text().splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith(";")) == JOBS
    assert dict(comment(line) for line in lines if line.startswith(";")) == {
        "Version": "2.2",
        "Computer": "tiger",
        "Conversion": "gpulake export swf",
        "MaxJobs": "5",
        "MaxRecords": "5",
        "UnixStartTime": f"{BEGIN.timestamp():.0f}",
        "TimeZoneString": "UTC",
        "StartTime": "Sun Mar 01 00:00:00 UTC 2026",
        "MaxProcs": "14",
        "Processors": "GPUs",
        "Note": "parts of a processor are rounded up",
        "MaxQueues": "0",
    }


@pytest.mark.slow
def test_processors_are_cpus_unless_the_header_says_otherwise(tmp_path: Path) -> None:
    flow = landed(tmp_path / "in", HEADER + JOBS)
    cores = rows_of(flow.lake, "SELECT requested_cores, requested_gpus FROM silver_tasks ORDER BY job_id")
    assert [tuple(row.values()) for row in cores] == [(8.0, 0.0), (16.0, 0.0), (4.0, 0.0), (2.0, 0.0), (1.0, 0.0)]
    with pytest.raises(InputError, match="no job of tiger to export: 5 no GPUs"):
        export_swf(flow, None, "GPUs", tmp_path / "out.swf")
    out = tmp_path / "out.swf"
    options = ["--processors", "cores", "--out", str(out), "--lake", str(flow.config.lake)]
    answer = CliRunner().invoke(root, ["export", "swf", *options])
    assert (answer.exit_code, answer.stdout) == (0, f"5 jobs in {out}\n")
    assert "; Processors: CPUs\n" in out.read_text()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" ".join(["-1"] * 18), True),
        (" ".join(["1.5"] * 18), True),
        (" ".join(["1"] * 17), False),
        (" ".join(["1"] * 17 + ["x"]), False),
        ("", False),
    ],
)
def test_a_row_is_eighteen_numbers(line: str, expected: bool) -> None:
    assert len(FIELDS) == 18
    assert is_row(line) is expected
