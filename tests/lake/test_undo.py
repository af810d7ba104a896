"""A landing can be taken back, with what it quarantined; the history stays, and the file can land again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import count_of, rows_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import LakeError, UsageError
from gpulake.flow import Flow

WriteCsv = Callable[..., Path]
JOBS = ["a,i,u,Failed,1.0,2.0", "b,i,u,Failed,1.0,2.0"]
LIVE = "SELECT version, is_live FROM landings ORDER BY landed_at, version"


def flow_at(config: Config, minute: int) -> Flow:
    return Flow(config, clock=FrozenClock(datetime(2026, 1, 2, 3, minute, tzinfo=UTC)))


@pytest.mark.slow
def test_a_landing_is_taken_back_with_its_quarantine_and_lands_again(config: Config, write_csv: WriteCsv) -> None:
    path = write_csv("pai_job_table", [*JOBS, "too,few"])
    flow_at(config, 1).land([path])
    (undone,) = flow_at(config, 2).undo([str(path)])
    lake = Flow(config).lake
    assert (undone.landing.rows_landed, undone.held) == (2, ())
    assert (count_of(lake, "bronze_job_events"), count_of(lake, "quarantine")) == (0, 0)
    assert rows_of(lake, LIVE) == [{"version": 1, "is_live": False}]
    (landing,) = flow_at(config, 3).land([path]).landings
    assert (landing.version, landing.is_new, landing.rows_landed, landing.rows_quarantined) == (3, True, 2, 1)
    assert (count_of(lake, "bronze_job_events"), count_of(lake, "quarantine")) == (2, 1)
    assert rows_of(lake, LIVE) == [{"version": 1, "is_live": False}, {"version": 3, "is_live": True}]
    (run,) = rows_of(lake, "SELECT status, detail FROM runs WHERE step = 'undo'")
    assert run["status"] == "succeeded"
    assert json.loads(str(run["detail"]))["sources"] == [str(path)]


def test_the_version_before_holds_again_and_another_undo_goes_on_from_there(
    config: Config, write_csv: WriteCsv
) -> None:
    write_csv("pai_job_table", [*JOBS, "too,few"])
    flow_at(config, 1).land([path := write_csv("pai_job_table", [*JOBS, "too,few"])])
    flow_at(config, 2).land([write_csv("pai_job_table", JOBS[:1])], is_replacing=True)
    lake = Flow(config).lake
    assert (count_of(lake, "bronze_job_events"), count_of(lake, "quarantine")) == (1, 0)
    (undone,) = flow_at(config, 3).undo([str(path)])
    (held,) = undone.held
    assert (held.version, count_of(lake, "bronze_job_events"), count_of(lake, "quarantine")) == (1, 2, 1)
    (undone,) = flow_at(config, 4).undo([held.landing_id])
    assert (undone.held, count_of(lake, "bronze_job_events")) == ((), 0)


def test_a_content_that_another_file_has_as_well_stays(config: Config, write_csv: WriteCsv) -> None:
    flow = Flow(config)
    flow.land([write_csv("pai_job_table", JOBS, folder="a"), write_csv("pai_job_table", JOBS, folder="b")])
    flow.undo([str(write_csv("pai_job_table", JOBS, folder="a"))])
    assert count_of(flow.lake, "bronze_job_events") == 2
    flow.undo([str(write_csv("pai_job_table", JOBS, folder="b"))])
    assert count_of(flow.lake, "bronze_job_events") == 0


@pytest.mark.slow
def test_the_next_build_is_made_without_what_was_taken_back(config: Config, write_csv: WriteCsv) -> None:
    flow = Flow(config)
    flow.land([write_csv("pai_job_table", JOBS[:1], folder="a")])
    flow.land([late := write_csv("pai_job_table", JOBS[1:], folder="b")])
    flow.build(["silver_jobs"])
    assert count_of(flow.lake, "silver_jobs") == 2
    flow.undo([str(late.parent)])
    assert flow.build(["silver_jobs"]).is_new
    assert rows_of(flow.lake, "SELECT job_id FROM silver_jobs") == [{"job_id": "a"}]
    flow.undo([str(late.parent.parent / "a")])
    with pytest.raises(LakeError, match="nothing has landed"):
        flow.build(["silver_jobs"])


def test_what_did_not_land_cannot_be_taken_back(config: Config, write_csv: WriteCsv) -> None:
    flow = Flow(config)
    flow.land([path := write_csv("pai_job_table", JOBS)])
    flow.undo([str(path)])
    with pytest.raises(UsageError, match="nothing that holds now landed as") as raised:
        flow.undo([str(path)])
    assert raised.value.hint == "see what landed, and its ids, with: gpulake land --list"


def test_the_command_lists_shows_and_takes_back(config: Config, write_csv: WriteCsv) -> None:
    path = write_csv("pai_job_table", JOBS)
    runner, lake = CliRunner(), ["--lake", str(config.lake)]
    assert runner.invoke(root, ["land", str(path), *lake]).exit_code == 0
    (listed,) = json.loads(runner.invoke(root, ["land", "--list", "--json", *lake]).stdout)
    assert (listed["source"], listed["rows_landed"]) == (str(path), 2)
    dry = runner.invoke(root, ["land", "--undo", listed["landing_id"], "--dry-run", *lake])
    assert "nothing was done" in dry.stderr
    assert count_of(Flow(config).lake, "bronze_job_events") == 2
    undo = json.loads(runner.invoke(root, ["land", "--undo", listed["landing_id"], "--json", *lake]).stdout)
    assert [one["landing"]["landing_id"] for one in undo["undone"]] == [listed["landing_id"]]
    assert count_of(Flow(config).lake, "bronze_job_events") == 0
    assert isinstance(runner.invoke(root, ["land", *lake]).exception, UsageError)
    assert isinstance(runner.invoke(root, ["land", "--list", "--dry-run", *lake]).exception, UsageError)
