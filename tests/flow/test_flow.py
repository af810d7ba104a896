"""A refresh: each step recorded, what is done not done again, a failure that names its step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.errors import LakeError, StepError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.synth import TraceSummary


def steps(config: Config) -> list[tuple[object, object]]:
    return [(row["step"], row["status"]) for row in rows_of(Lake(config), "FROM runs ORDER BY started_at")]


@pytest.mark.slow
def test_each_step_leaves_a_row_with_its_counts(
    trace: tuple[Path, TraceSummary], config: Config, tmp_path: Path
) -> None:
    Flow(config).refresh([trace[0]], tmp_path / "report.html")
    names = ["land", "build", "test", "score", "publish", "incidents", "report"]
    assert steps(config) == [(name, "succeeded") for name in names]
    runs = rows_of(Lake(config), "FROM runs")
    assert len({row["run_id"] for row in runs}) == 1
    assert all(float(str(row["seconds"])) > 0 for row in runs)
    landed = next(json.loads(str(row["detail"])) for row in runs if row["step"] == "land")
    gpu_models = len((trace[0] / "tpu_gpus.csv").read_text().splitlines()) - 1
    assert landed["rows_landed"] == sum(trace[1].rows.values()) + gpu_models
    assert landed["rows_quarantined"] == 0


@pytest.mark.slow
def test_a_second_refresh_of_the_same_files_does_nothing_again(
    trace: tuple[Path, TraceSummary], built_lake: Config
) -> None:
    before = rows_of(Lake(built_lake), "FROM build_info")
    result = Flow(built_lake).refresh([trace[0]], None)
    assert not any(landing.is_new for landing in result.landings)
    assert not result.build.is_new
    assert result.build.findings
    assert rows_of(Lake(built_lake), "FROM build_info") == before
    assert steps(built_lake)[-3:] == [("land", "succeeded"), ("build", "skipped"), ("incidents", "succeeded")]


@pytest.mark.slow
def test_other_settings_or_rows_make_a_new_build(built_lake: Config, tmp_path: Path) -> None:
    from dataclasses import replace

    assert Flow(replace(built_lake, reference_time_zone="America/Chicago")).build().is_new
    more = tmp_path / "pai_job_table.csv"
    more.write_text("j,i,u,Failed,100.0,200.0\n")
    flow = Flow(built_lake)
    flow.land([more])
    assert flow.build().is_new
    assert rows_of(Lake(built_lake), "SELECT status FROM silver_jobs WHERE job_id = 'j'") == [{"status": "failed"}]


def test_a_failure_names_the_step_and_the_way_out(config: Config, tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"step land failed: no file or folder at") as raised:
        Flow(config).refresh([tmp_path / "nothing"], None)
    assert raised.value.hint == "check the path"
    assert steps(config) == [("land", "failed")]


def test_a_busy_lake_is_tried_again_and_then_given_up(trace: tuple[Path, TraceSummary], config: Config) -> None:
    lake = Lake(config).create()
    waits: list[float] = []
    with lake.writing(), pytest.raises(StepError, match="another gpulake is writing"):
        Flow(config, wait=waits.append).refresh([trace[0]], None)
    assert waits == [1.0, 5.0]


@pytest.mark.slow
def test_a_lake_that_becomes_free_is_used(trace: tuple[Path, TraceSummary], config: Config) -> None:
    lake = Lake(config).create()
    holding = lake.writing()
    holding.__enter__()

    def free_it(_: float) -> None:
        holding.__exit__(None, None, None)

    assert len(Flow(config, wait=free_it).refresh([trace[0]], None).landings) == 8


@pytest.mark.slow
def test_a_build_that_is_damaged_is_built_again(built_lake: Config) -> None:
    lake = Lake(built_lake)
    current = lake.builds.current()
    assert current
    current.write_bytes(b"not a database")
    assert Flow(built_lake).build().is_new
    assert rows_of(lake, "SELECT count(*) AS n FROM silver_jobs") == [{"n": 1000}]


def test_a_folder_of_something_else_is_never_taken_for_a_lake(config: Config) -> None:
    config.lake.mkdir()
    (config.lake / "thesis.tex").write_text("precious")
    from gpulake.core.errors import UsageError

    with pytest.raises(UsageError, match="is a folder of something else"):
        Flow(config).land([config.lake])
    assert [path.name for path in config.lake.iterdir()] == ["thesis.tex"]


def test_a_lake_of_another_format_is_refused(built_lake: Config) -> None:
    (built_lake.lake / "gpulake.json").write_text('{"format": 99}')
    with pytest.raises(LakeError, match="has format 99"):
        Lake(built_lake).open()
