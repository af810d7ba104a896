"""A lake of an older format is read, extended and migrated; one of a later program is refused."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import count_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import LakeError
from gpulake.flow import Flow
from gpulake.flow.storing import migrate
from gpulake.lake import Lake
from gpulake.lake.migrating import NEWEST, OLDEST, STEPS, format_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def lake_of(version: int, tmp_path: Path) -> Config:
    """Landed by the last program of that format: two jobs with a task each, and a row that does not parse."""
    with tarfile.open(FIXTURES / f"lake_format_{version}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Config(lake=tmp_path / "lake", threads=1)


@pytest.mark.parametrize("version", range(OLDEST, NEWEST))
def test_a_lake_of_each_older_format_is_extended_built_and_migrated(
    version: int, tmp_path: Path, clock: FrozenClock
) -> None:
    flow = Flow(lake_of(version, tmp_path), clock)
    assert format_of(flow.lake.root) == version
    path = tmp_path / "pai_job_table.csv"
    path.write_text("j3,i3,u3,Failed,1.0,2.0\n")
    flow.land([path])
    flow.build()
    counts = {table: count_of(flow.lake, table) for table in ("silver_jobs", "silver_tasks", "quarantine")}
    assert counts == {"silver_jobs": 3, "silver_tasks": 2, "quarantine": 1}
    assert [step.to for step in migrate(flow, is_dry_run=True)] == list(range(version + 1, NEWEST + 1))
    assert format_of(flow.lake.root) == version
    assert [step.to for step in migrate(flow)] == list(range(version + 1, NEWEST + 1))
    assert (format_of(flow.lake.root), migrate(flow)) == (NEWEST, [])
    assert {table: count_of(flow.lake, table) for table in counts} == counts
    assert not flow.build().is_new


def test_every_format_has_a_step_to_the_next() -> None:
    assert {version: step.to for version, step in STEPS.items()} == {one: one + 1 for one in range(OLDEST, NEWEST)}


def test_a_lake_of_a_later_program_is_refused(lake: Lake) -> None:
    assert format_of(lake.root) == NEWEST
    (lake.root / "gpulake.json").write_text(json.dumps({"format": NEWEST + 1}))
    with pytest.raises(LakeError) as caught:
        lake.open()
    message = f"the lake at {lake.root} has format {NEWEST + 1}, and this gpulake knows formats up to {NEWEST}"
    assert caught.value.message == message
    assert caught.value.hint == "use the version of gpulake that wrote it, or a later one"


@pytest.mark.parametrize("wrong", ["{", "[]", '{"format": 0}', '{"format": "2"}', "{}"])
def test_a_marker_that_says_no_format_is_an_error(lake: Lake, wrong: str) -> None:
    (lake.root / "gpulake.json").write_text(wrong)
    with pytest.raises(LakeError, match=r"has (format|no readable)"):
        lake.open()


def test_the_command_says_what_it_does(tmp_path: Path) -> None:
    config = lake_of(1, tmp_path)
    words = ["migrate", "--lake", str(config.lake)]
    answers = [
        CliRunner().invoke(root, one, catch_exceptions=False).stdout for one in ([*words, "--dry-run"], words, words)
    ]
    assert answers == [f"format 2: {STEPS[1].what}\n", f"format 2: {STEPS[1].what}\n", ""]
