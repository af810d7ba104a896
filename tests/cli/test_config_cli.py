"""gpulake config: what is set, where it comes from, and what a lake keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import load
from gpulake.core.errors import ConfigError, UsageError
from gpulake.flow import Flow

WriteCsv = Callable[..., Path]
SACCT = "JobID|User|State|Submit|Start|End|AllocTRES|NodeList|Cluster\n"
JOB = "1|ann|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:00|2026-03-01T12:00:00|gres/gpu=8|n1|tiger\n"
ZONES = "SELECT cluster_id, time_zone, observed_from FROM silver_clusters"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def run(*words: object) -> Result:
    return CliRunner().invoke(root, [str(word) for word in words])


def built(lake: Path, tmp_path: Path) -> Result:
    (tmp_path / "sacct.txt").write_text(SACCT + JOB)
    assert run("land", "--lake", lake, tmp_path / "sacct.txt").exit_code == 0
    return run("build", "--select", "silver_clusters", "--lake", lake)


def begins_at(lake: Path) -> list[object]:
    rows = rows_of(Flow(load({"lake": lake}, {})).lake, ZONES)
    return [(row["cluster_id"], row["time_zone"], str(row["observed_from"])) for row in rows]


def test_set_show_and_check(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert run("config", "set", "clusters.tiger.time_zone", "America/New_York", "--lake", lake).exit_code == 0
    (row,) = json.loads(run("config", "show", "clusters.tiger.time_zone", "--lake", lake, "--json").stdout)
    assert row == {"setting": "clusters.tiger.time_zone", "value": "America/New_York", "from": "lake"}
    assert json.loads(run("config", "check", "--lake", lake, "--json").stdout) == {
        "read": ["lake", "flag"],
        "problems": [],
    }


def test_a_wrong_value_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run("config", "set", "currency", "EUR", "--lake", lake)
    before = (lake / "gpulake.toml").read_text()
    for key, value, message in (
        ("clusters.tiger.time_zone", "Mars/Olympus", "no time zone named 'Mars/Olympus'"),
        ("clusters.tiger.gpuz", "8", "unknown setting 'gpuz'"),
        ("threads", "8", "threads is not a setting of a lake"),
        ("idle_gpu_ratio", "7", "idle_gpu_ratio is 7"),
        ("clusters.tiger.gpu_type", "AKIAIOSFODNN7EXAMPLE", "looks like a secret"),
    ):
        result = run("config", "set", key, value, "--lake", lake)
        assert isinstance(result.exception, ConfigError)
        assert message in result.exception.message
    assert (lake / "gpulake.toml").read_text() == before


@pytest.mark.slow
def test_a_build_from_another_folder_gives_the_same_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    Path("gpulake.toml").write_text("[clusters.tiger]\ntime_zone = 'America/New_York'\n")
    result = built(lake, tmp_path)
    assert f"the lake keeps these settings from now on: {lake}/gpulake.toml" in result.stderr
    assert begins_at(lake) == [("tiger", "America/New_York", "2026-03-01 15:00:00+00:00")]
    monkeypatch.chdir("/")
    assert run("build", "--select", "silver_clusters", "--force", "--lake", lake).exit_code == 0
    assert begins_at(lake) == [("tiger", "America/New_York", "2026-03-01 15:00:00+00:00")]


@pytest.mark.slow
def test_a_changed_setting_makes_a_new_build_and_the_same_one_does_not(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    built(lake, tmp_path)
    before = Flow(load({"lake": lake}, {})).lake.builds.current()
    run("config", "set", "clusters.tiger.time_zone", "Asia/Shanghai", "--lake", lake)
    run("build", "--select", "silver_clusters", "--lake", lake)
    after = Flow(load({"lake": lake}, {})).lake.builds.current()
    assert begins_at(lake) == [("tiger", "Asia/Shanghai", "2026-03-01 02:00:00+00:00")]
    run("build", "--select", "silver_clusters", "--lake", lake)
    assert before != after == Flow(load({"lake": lake}, {})).lake.builds.current()


@pytest.mark.slow
def test_a_lake_of_before_is_not_built_in_other_zones_without_a_word(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    Path("gpulake.toml").write_text("[clusters.tiger]\ntime_zone = 'America/New_York'\n")
    built(lake, tmp_path)
    (lake / "gpulake.toml").unlink()  # as lakes were that earlier versions made
    Path("gpulake.toml").unlink()
    result = run("build", "--lake", lake)
    assert isinstance(result.exception, ConfigError)
    assert result.exception.message == (
        "the times of cluster tiger were built in America/New_York, and the settings here say UTC"
    )
    assert result.exception.hint.startswith("gpulake config set clusters.tiger.time_zone America/New_York --lake ")


@pytest.mark.slow
def test_a_cluster_that_the_lake_does_not_have_gets_the_nearest_name(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    built(lake, tmp_path)
    result = run("config", "set", "clusters.tigre.gpus", "8", "--lake", lake)
    assert isinstance(result.exception, UsageError)
    assert (result.exception.message, result.exception.hint) == (
        "no cluster named 'tigre' in the lake",
        "did you mean 'tiger'?",
    )
    (lake / "gpulake.toml").write_text("[clusters.tigre]\ngpus = 8\n")
    check = run("config", "check", "--lake", lake)
    assert check.stdout == "clusters.tigre: no cluster of that name in the lake; did you mean 'tiger'?\n"
    assert isinstance(check.exception, UsageError)


def test_the_first_setting_of_a_lake_keeps_those_that_a_file_gave_it(tmp_path: Path) -> None:
    Path("gpulake.toml").write_text("[clusters.tiger]\ngpus = 8\n")
    run("config", "set", "currency", "EUR", "--lake", tmp_path / "lake")
    config = load({"lake": tmp_path / "lake"}, {})
    assert (config.currency, config.clusters["tiger"].gpus) == ("EUR", 8)


def test_a_file_is_named_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("memory_limit = '3GB'\n")
    (row,) = json.loads(run("config", "show", "memory", "--config", tmp_path / "other.toml", "--json").stdout)
    assert row == {"setting": "memory_limit", "value": "3GB", "from": f"{tmp_path}/other.toml"}
    result = run("tables", "--config", tmp_path / "none.toml")
    assert isinstance(result.exception, ConfigError)
