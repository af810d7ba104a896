"""Spark builds what DuckDB builds: every table, its keys and texts to the last bit. Needs Spark: see docs/scale.md."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import count_of
from gpulake.core.config import Config
from gpulake.core.errors import BuildError, UsageError
from gpulake.flow import Flow
from gpulake.model import plan as plans
from gpulake.model.plan import shipped_plan
from gpulake.model.spark_check import spark_parts
from gpulake.synth import write_trace
from growing import DAYS, job_rows, telemetry_rows, write_steps
from growing_pods import pod_rows
from repeating import assert_alike

MISSING = ", ".join(f"{part}: {found}" for part, found, hint in spark_parts() if hint)
MASTER = "local[2]"
needs_spark = pytest.mark.skipif(bool(MISSING), reason=f"Spark cannot run here: {MISSING}")


def written(source: str, folder: Path) -> Path:
    if source == "pai":
        write_trace(folder, jobs=1_000, seed=7)
        return folder
    rows = {"schedulers": job_rows(1), "telemetry": telemetry_rows(1), "kubernetes": pod_rows(2)}[source]
    return write_steps(folder, rows, 1, (DAYS + 1,))[0]


@pytest.fixture
def landed(trace: tuple[Path, object], tmp_path: Path) -> Path:
    Flow(Config(lake=tmp_path / "landed", threads=1)).land([trace[0]])
    return tmp_path / "landed"


def copy_of(lake: Path, folder: Path) -> Flow:
    shutil.copytree(lake, folder / "lake")
    return Flow(Config(lake=folder / "lake", threads=1))


@needs_spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["pai", "schedulers", "telemetry", "kubernetes"])
def test_spark_builds_what_duckdb_builds(source: str, tmp_path: Path) -> None:
    Flow(Config(lake=tmp_path / "landed", threads=1)).land([written(source, tmp_path / "files")])
    flow, other = copy_of(tmp_path / "landed", tmp_path / "spark"), copy_of(tmp_path / "landed", tmp_path / "duckdb")
    result = flow.build(spark_master=MASTER)
    other.build()
    assert {test.status for test in result.tests} <= {"pass", "warn"}
    assert count_of(flow.lake, "silver_machines") > 0
    assert_alike(flow.lake, other.lake, digits=9)


@needs_spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_spark_cannot_run_publishes_nothing(
    landed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "with one as (select 1 as x) select no_such_function(x) as gpu_model from one"
    models = tuple(
        replace(model, sql=sql) if model.name == "silver_gpu_models" else model for model in shipped_plan().models
    )
    plan = replace(shipped_plan(), models=models)
    monkeypatch.setattr(plans, "shipped_plan", lambda: plan)
    flow = copy_of(landed, tmp_path)
    with pytest.raises(BuildError, match=r"(?i)silver_gpu_models failed on Spark: .*no_such_function"):
        flow.build(spark_master=MASTER)
    assert flow.lake.builds.current() is None


def test_a_machine_without_java_is_told_so(lake_of_one_file: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(UsageError, match="Spark cannot run here"):
        lake_of_one_file.build(spark_master=MASTER)
    found = {part: hint for part, _, hint in spark_parts()}
    assert "openjdk" in found["java"]


def test_dbt_and_spark_are_not_both_asked(lake_of_one_file: Flow) -> None:
    with pytest.raises(UsageError, match="--dbt and --engine spark"):
        lake_of_one_file.build(is_dbt=True, spark_master=MASTER)


@pytest.fixture
def lake_of_one_file(config: Config) -> Flow:
    flow = Flow(config)
    flow.lake.create()
    return flow
