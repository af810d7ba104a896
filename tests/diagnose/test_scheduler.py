"""The record of the scheduler: it decides what the log leaves open, and disagreement is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import built_from
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.diagnosis import Diagnosis
from gpulake.core.errors import UsageError
from gpulake.core.progress import silent
from gpulake.diagnose.api import Answer
from gpulake.diagnose.diagnoser import Diagnoser, DiagnosisRequest
from gpulake.diagnose.scheduler import Record, with_record
from gpulake.lake import Lake

FIELDS = "JobID|JobName|User|Cluster|State|ExitCode|Submit|Start|End|NNodes|AllocTRES|NodeList"
SPAN = "2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T13:00:00|1|gres/gpu=8|gpu01"
STATES = {
    "1": ("NODE_FAIL", "1:0"),
    "2": ("TIMEOUT", "0:0"),
    "3": ("OUT_OF_MEMORY", "0:125"),
    "4": ("PREEMPTED", "0:15"),
    "5": ("FAILED", "1:0"),
    "6": ("FAILED", "0:9"),
    "7": ("COMPLETED", "0:0"),
}
STOPS = "2026-03-01 11:01:00 step 1/100 loss 2.0\n2026-03-01 11:02:00 step 2/100 loss 1.9\n"
WELL = STOPS + "Training finished.\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    jobs = [f"{job}|train||tiger|{state}|{code}|{SPAN}" for job, (state, code) in STATES.items()]
    return built_from(tmp_path_factory.mktemp("recorded"), {"sacct.txt": "\n".join([FIELDS, *jobs, ""])})


def answered(lake: Lake, clock: FrozenClock, log: Path, text: str, job_id: str | None = None) -> Answer:
    log.write_text(text)
    request = DiagnosisRequest(log, job_id=job_id, is_recorded=False)
    return Diagnoser(Config(lake=lake.root), lake, clock, silent).diagnose(request)


def test_a_log_that_stops_is_decided_by_the_state_of_its_job(
    recorded: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    found = {job: answered(recorded, clock, tmp_path / f"slurm-{job}.out", STOPS).diagnosis for job in STATES}
    assert {job: (one.job_id, one.verdict, one.reason) for job, one in found.items()} == {
        "1": ("1", "failed", "NodeFailure"),
        "2": ("2", "failed", "SlurmTimeLimit"),
        "3": ("3", "failed", "HostOOMKilled"),
        "4": ("4", "failed", "PreemptionSIGTERM"),
        "5": ("5", "failed", "unknown"),
        "6": ("6", "failed", "ProcessKilled"),
        "7": ("7", "healthy", "NotAFailure"),
    }
    assert (found["1"].method, found["1"].recovery.action) == ("scheduler", "cordon_node_and_restart")
    assert found["1"].gpu_hours_lost == 16.0


def test_a_failed_job_is_not_healthy_whatever_its_log_says(recorded: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    answer = answered(recorded, clock, tmp_path / "a.log", WELL, job_id="5")
    assert (answer.diagnosis.verdict, answer.diagnosis.reason) == ("failed", "unknown")
    assert answer.notes == (
        "The log says that the run ended well. The scheduler has the job as FAILED with exit code 1:0.",
    )


def test_a_job_that_does_not_exist_is_an_error(recorded: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no job '99' in the lake"):
        answered(recorded, clock, tmp_path / "a.log", STOPS, job_id="99")
    assert answered(recorded, clock, tmp_path / "slurm-99.out", STOPS).diagnosis.job_id is None


def test_the_record_names_the_cause_of_what_the_log_shows_and_else_leaves_it() -> None:
    seen, bug = (Diagnosis("failed", "unknown", reason, "") for reason in ("NCCLTimeoutError", "KeyError"))
    record = Record("tiger", "ann", "NODE_FAIL", "1:0")
    decided, note = with_record(seen, record)
    assert (decided.reason, note) == (
        "NodeFailure",
        "The log shows NCCLTimeoutError. The scheduler has the job as NODE_FAIL with exit code 1:0.",
    )
    assert with_record(bug, record)[0].reason == "KeyError"
    assert with_record(bug, Record("tiger", "ann", "COMPLETED", "0:0")) == (
        bug,
        "The log shows KeyError. The scheduler has the job as COMPLETED.",
    )
