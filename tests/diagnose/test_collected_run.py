"""The folder of the collector as telemetry: samples of its segments, and the exit code that its `exec` saw."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.diagnose.api import Answer
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow

BUNDLE = Path(__file__).parent.parent / "fixtures" / "h200_run.tar.gz"
STOPS = "2026-11-15 16:56:56 step 1/100 loss 2.0\n2026-11-15 16:57:16 step 2/100 loss 1.9\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with tarfile.open(BUNDLE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "gpu0"


def answered(run: Path, status: int) -> Answer:
    (events,) = run.glob("events.exec.*.jsonl")
    row = json.loads(events.read_text())
    events.write_text(json.dumps({**row, "status": status}) + "\n")
    (run.parent / "a.log").write_text(STOPS)
    return Flow(Config()).diagnose(DiagnosisRequest(run.parent / "a.log", telemetry=run))


@pytest.mark.parametrize(
    ("status", "verdict", "reason"),
    [(0, "healthy", "NotAFailure"), (137, "failed", "ProcessKilled"), (-11, "failed", "ProcessCrashed")],
)
def test_a_log_that_stops_is_decided_by_the_exit_code(run: Path, status: int, verdict: str, reason: str) -> None:
    found = answered(run, status).diagnosis
    assert (found.verdict, found.reason, found.method) == (verdict, reason, "telemetry")
    assert not (run / "cctf").exists()


@pytest.mark.parametrize(
    ("pid", "verdict", "reason"), [(1 << 30, "failed", "ProcessKilled"), (1, "unknown", "unknown")]
)
def test_a_command_that_was_killed_with_its_exec_left_an_open_invocation(
    run: Path, pid: int, verdict: str, reason: str
) -> None:
    (events,) = run.glob("events.exec.*.jsonl")
    row = json.loads(events.read_text())
    events.with_name("events.exec.7.open.jsonl").write_text(
        json.dumps({**row, "status": None, "ts_end": row["ts_start"], "pid": pid}) + "\n"
    )
    events.unlink()
    (run.parent / "a.log").write_text(STOPS)
    found = Flow(Config()).diagnose(DiagnosisRequest(run.parent / "a.log", telemetry=run)).diagnosis
    assert (found.verdict, found.reason) == (verdict, reason)
