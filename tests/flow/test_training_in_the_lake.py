"""A training run from its files to the job's page, to detection and to the diagnosis of its job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import built_from, rows_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.progress import silent
from gpulake.diagnose.diagnoser import Diagnoser, DiagnosisRequest
from gpulake.flow import Flow
from gpulake.flow.training import RunOfLake, look_at_training
from gpulake.lake import Lake
from show.web.boards import dashboard

FIELDS = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"
JOB = "4711|train|ann|tiger|FAILED|2026-03-01T11:00:00|2026-03-01T12:00:00|2026-03-01T13:00:00|1|gres/gpu=8|gpu01"
START = 1_772_366_400  # 2026-03-01 12:00 UTC
# Step, seconds since the start, loss: ten minutes of start-up, a stall, at step 30 a restart from step 20, a last NaN.
LOGGED = [
    *((step, 600 + 10 * step, 4.0 / step) for step in range(1, 21)),
    *((step, 1100 + 10 * step, 4.0 / step) for step in range(21, 31)),
    *((step, 1700 + 10 * (step - 20), 4.0 / step) for step in range(21, 41)),
    (41, 1910, float("nan")),
]
PARTS = {
    "productive": 410.0,  # 41 steps of ten seconds
    "startup": 600.0,
    "stall": 500.0,
    "repeated": 100.0,  # ten steps
    "restart": 300.0,
    "ending": 1690.0,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    history = "".join(
        json.dumps({"_step": step, "_timestamp": START + at, "train/loss": loss, "tokens/sec": 1000.0}) + "\n"
        for step, at, loss in LOGGED
    )
    files = {"sacct.txt": f"{FIELDS}\n{JOB}\n", "slurm-4711/night1.jsonl": history}
    return built_from(tmp_path_factory.mktemp("trained"), files)


def test_the_goodput_of_a_job_adds_up_to_what_it_held(trained: Lake) -> None:
    rows = rows_of(trained, "SELECT part, seconds, gpu_hours FROM gold_run_goodput WHERE seconds > 0")
    assert {row["part"]: row["seconds"] for row in rows} == pytest.approx(PARTS)
    (held,) = rows_of(trained, "SELECT sum(gpus * held_seconds) / 3600 AS held FROM silver_holdings")
    assert sum(float(str(row["gpu_hours"])) for row in rows) == pytest.approx(held["held"]) == 8.0


@pytest.mark.slow
@pytest.mark.parametrize("named", ["4713", "4711_2"])
def test_a_run_of_a_task_of_an_array_finds_its_job_by_either_id(tmp_path: Path, named: str) -> None:
    history = (
        '{"_step": 1, "_timestamp": 1772366500, "loss": 2.5}\n{"_step": 2, "_timestamp": 1772366510, "loss": 2.0}\n'
    )
    lake = built_from(tmp_path, {f"slurm-{named}/night1.jsonl": history})
    asked = "SELECT job_id, job_basis, cluster_id FROM silver_training_runs"
    assert rows_of(lake, asked) == [{"job_id": named, "job_basis": None, "cluster_id": None}]
    (tmp_path / "sacct.txt").write_text(
        f"JobIDRaw|{FIELDS}\n" + "".join(f"{4711 + task}|{JOB.replace('4711', f'4711_{task}')}\n" for task in (1, 2))
    )
    Flow(lake.config).refresh([tmp_path / "sacct.txt"], None)
    assert rows_of(lake, asked) == [{"job_id": "4711_2", "job_basis": "id", "cluster_id": "tiger"}]


@pytest.mark.parametrize("name", ["night1", "4711"])
def test_a_run_of_the_lake_is_examined_by_its_name_or_its_job(trained: Lake, name: str) -> None:
    report = look_at_training(None, RunOfLake(trained, name))
    assert {part.part: part.seconds for part in report.parts} == pytest.approx(PARTS)
    assert len(report.steps) == len(LOGGED) - 2, "neither the first row nor the restart is a step"
    assert report.notes == (
        "Its training run night1 (wandb) logged step 41 last at 2026-03-01 12:31:50 UTC, with a loss of nan.",
        "Its loss is nan since step 41: it diverged.",
        "It was restarted 1 time and did steps again.",
        "There are no samples of GPUs of job 4711: only what the run logged was examined.",
    )


def test_the_command_prints_what_the_time_went_to(trained: Lake) -> None:
    asked = ["detect", "training", "--lake", str(trained.root), "--run"]
    found = CliRunner().invoke(root, [*asked, "night1"])
    assert found.exit_code == 0, found.output
    assert [line.split()[0] for line in found.stdout.splitlines() if "%" in line] == sorted(
        PARTS, key=lambda part: -PARTS[part]
    )
    document = json.loads(CliRunner().invoke(root, [*asked, "4711", "--json"]).stdout)
    assert {part["part"]: part["seconds"] for part in document["parts"]} == pytest.approx(PARTS)
    refused = CliRunner().invoke(root, [*asked, "nobody"]).exception
    assert isinstance(refused, UsageError)
    assert refused.message == "the lake has no training run 'nobody', nor one of a job of that id"


def test_a_diagnosis_says_how_the_run_ended(trained: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    log = tmp_path / "slurm-4711.out"
    log.write_text("2026-03-01 12:31:50 step 41 loss nan\n2026-03-01 13:00:00 slurmstepd: error: job killed\n")
    diagnoser = Diagnoser(Config(lake=trained.root), trained, clock, silent)
    answer = diagnoser.diagnose(DiagnosisRequest(log, job_id="4711", is_recorded=False))
    assert answer.diagnosis.telemetry[-4:] == (
        "Its training run night1 (wandb) logged step 41 last at 2026-03-01 12:31:50 UTC, with a loss of nan.",
        "Its loss is nan since step 41: it diverged.",
        "It logged nothing in its last 28 min; until then it did so about every 10 s.",
        "It was restarted 1 time and did steps again.",
    )


def test_the_page_of_the_job_shows_loss_and_goodput(trained: Lake) -> None:
    board = dashboard(Config(lake=trained.root, threads=1))
    given = {"job": "4711"}
    goodput = board.client.get("/api/v1/job_goodput", params=given).json()
    assert {row["part"]: row["seconds"] for row in goodput["rows"] if row["seconds"]} == pytest.approx(PARTS)
    steps = board.client.get("/api/v1/job_training", params=given).json()["rows"]
    assert len(steps) == len(LOGGED)
    assert {row["lost_to"]: row["lost_seconds"] for row in steps if row["lost_to"]} == {
        "stall": 500.0,
        "restart": 300.0,
    }
    for panel in ("training", "goodput"):
        shown = board.client.get(f"/panels/job/{panel}", params=given)
        assert shown.status_code == 200
        assert "night1" in shown.text
