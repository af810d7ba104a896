"""Jobs of PyTorch, transformers, Lightning, accelerate, JAX, Triton and torchrun on an H200, as the collector saw them.

Recorded and labelled before they were diagnosed: the logs (most tell no time), the collector's folder of all of them,
and the right answers (one was widened afterwards, docs/diagnose-telemetry.md). Paths in the logs are shortened, and the
files that the commands wrote to were noted by hand, as `exec` does.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow

BUNDLE = Path(__file__).parent.parent / "fixtures" / "h200_jobs.tar.gz"
with tarfile.open(BUNDLE) as _archive:
    _file = _archive.extractfile("./truth.json")
    assert _file is not None
    TRUTH: dict[str, list[str]] = json.load(_file)
# Their logs just stop: only the collector knows how they ended.
SILENT = {"hang_lock", "jax_healthy", "killed", "segv", "terminated"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    with tarfile.open(BUNDLE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def diagnosed(log: Path, run: Path | None) -> Diagnosis:
    return Flow(Config()).diagnose(DiagnosisRequest(log, telemetry=run)).diagnosis


@pytest.mark.parametrize("job", sorted(TRUTH))
def test_a_job_that_the_collector_watched_is_diagnosed(jobs: Path, job: str) -> None:
    assert diagnosed(jobs / "logs" / f"{job}.log", jobs / "node1").reason in TRUTH[job]


@pytest.mark.parametrize("job", sorted(TRUTH))
def test_without_the_collector_only_silent_jobs_are_unknown(jobs: Path, job: str) -> None:
    expected = ["unknown"] if job in SILENT else TRUTH[job]
    assert diagnosed(jobs / "logs" / f"{job}.log", None).reason in expected


def test_a_log_of_another_name_is_not_taken_for_any_of_many_commands(jobs: Path) -> None:
    other = jobs / "logs" / "notes.log"
    other.write_text((jobs / "logs" / "killed.log").read_text())
    found = diagnosed(other, jobs / "node1")
    other.unlink()
    assert (found.reason, found.telemetry) == (
        "unknown",
        ("The log tells no time, and the samples do not show one job alone: they say nothing of it.",),
    )


def test_a_command_that_ended_well_did_not_hang(jobs: Path, tmp_path: Path) -> None:
    (events,) = (file for file in (jobs / "node1").glob("events.exec.*") if "hang_lock" in file.read_text())
    run = tmp_path / "node1"
    run.mkdir()
    for file in (jobs / "node1").rglob("*"):
        if file.is_file():
            target = run / file.relative_to(jobs / "node1")
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(file.read_bytes())
    row = json.loads(events.read_text())
    (run / events.name).write_text(json.dumps(row | {"status": 0}) + "\n")
    found = diagnosed(jobs / "logs" / "hang_lock.log", run)
    assert (found.verdict, found.reason) == ("healthy", "NotAFailure")
