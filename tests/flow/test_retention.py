"""Samples whose time is over are rolled up; every other table stays as it was, now and in later builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config, checked
from gpulake.core.errors import ConfigError, LakeError, UsageError
from gpulake.core.retention_settings import SAMPLE_TABLES, Ages, Retention
from gpulake.flow import Flow
from gpulake.flow.retaining import retain
from gpulake.lake import Lake, archive
from gpulake.lake.deep import inspect
from gpulake.model.plan import shipped_plan
from gpulake.model.retained import rolled_up
from gpulake.synth.site import Site, write_site
from lake_cache import copied
from repeating import HISTORY, _settled

END = datetime(2026, 3, 8, tzinfo=UTC)
CLOCK = FrozenClock(END + timedelta(hours=12))
KEPT = Retention(raw_days=4, minute_days=8)
# Sums over each owner and source that rolled-up samples leave as they were.
SUMS = """
SELECT source, owner_kind, owner_id, gpu_id, round(sum(covers_seconds), 6) AS seconds,
    round(sum(energy_joules), 3) AS energy, round(sum(busy_ratio * covers_seconds), 6) AS busy,
    count(DISTINCT date_trunc('hour', sampled_at)) AS hours
FROM silver_gpu_samples GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fortnight of a site in a lake, but for the last day, and its files."""

    def make(folder: Path) -> None:
        write_site(folder / "raw", Site(END, nodes=4, gpus=2, days=14, interval_seconds=1800))
        flow = Flow(Config(lake=folder / "lake", threads=1), CLOCK)
        flow.land([folder / "raw" / "slurm", *(path for path in samples(folder) if "03-07" not in path.name)])
        flow.build()

    return copied("fortnight", make, tmp_path_factory.mktemp("site"))


def samples(folder: Path) -> list[Path]:
    return sorted((folder / "raw" / "prometheus").glob("*.prom"))


@pytest.fixture
def flow(site: Path, tmp_path: Path) -> Flow:
    shutil.copytree(site / "lake", tmp_path / "lake")
    return Flow(Config(lake=tmp_path / "lake", threads=1, retention=KEPT), CLOCK)


@pytest.fixture
def before(site: Path) -> Lake:
    return Lake(Config(lake=site / "lake", threads=1)).open()


def count_of(lake: Lake, table: str) -> int:
    return int(str(rows_of(lake, f"SELECT count(*) AS n FROM {table}")[0]["n"]))


def assert_alike_but_for_samples(lake: Lake, other: Lake) -> None:
    with duckdb.connect() as connection:
        for name, one in (("one", lake), ("two", other)):
            connection.execute(f"ATTACH '{one.builds.current()}' AS {name} (READ_ONLY)")
        tables = [str(row[0]) for row in connection.execute("SHOW TABLES FROM one").fetchall()]
        for table in sorted(set(tables) - HISTORY - set(SAMPLE_TABLES)):
            both = ("one", "two"), ("two", "one")
            rows, expected = (
                connection.execute(f"FROM {a}.{table} EXCEPT ALL FROM {b}.{table}").to_arrow_table().to_pylist()
                for a, b in both
            )
            for (words, numbers), (others, other_numbers) in zip(_settled(rows), _settled(expected), strict=True):
                assert words == others, table
                assert numbers == pytest.approx(other_numbers, rel=1e-9, abs=1e-9), table


@pytest.mark.slow
def test_every_table_but_samples_is_the_same_after_retention_and_in_a_whole_build_after_it(
    flow: Flow, before: Lake
) -> None:
    plan = retain(flow, is_dry_run=True)
    assert_alike_but_for_samples(flow.lake, before)
    assert rows_of(flow.lake, SUMS) == rows_of(before, SUMS)
    was = {table: count_of(before, table) for table in SAMPLE_TABLES}
    done = retain(flow)
    assert done.archived == plan.archived
    now = {table: count_of(flow.lake, table) for table in SAMPLE_TABLES}
    for table in ("silver_gpu_samples", "silver_host_samples", "silver_link_samples"):
        gone = [(one.rows, one.rows_after) for one in done.archived if one.table == table]
        assert now[table] == was[table] - sum(rows for rows, _ in gone) + sum(after for _, after in gone) < was[table]
    for _ in range(2):
        assert_alike_but_for_samples(flow.lake, before)
        assert rows_of(flow.lake, SUMS) == rows_of(before, SUMS)
        assert inspect(flow.lake) == []
        assert flow.build(is_forced=True).touched is None
    # Nothing is left to do, and what landed lands only once.
    assert retain(flow) == replace(done, archived=(), removed={}, build_id="")


@pytest.mark.slow
def test_a_day_that_lands_after_retention_extends_the_build_to_what_it_would_have_been(
    flow: Flow, site: Path, tmp_path: Path
) -> None:
    retain(flow)
    last = [path for path in samples(site) if "03-07" in path.name]
    assert all(one.is_new for one in flow.land(last).landings)
    assert flow.build().touched is not None
    shutil.copytree(site / "lake", tmp_path / "all")
    whole = Flow(Config(lake=tmp_path / "all", threads=1), CLOCK)
    whole.land(last)
    whole.build()
    assert_alike_but_for_samples(flow.lake, whole.lake)
    # A day later one more day is rolled up, and a day of minutes becomes one of hours.
    later = Flow(flow.config, FrozenClock(CLOCK.now() + timedelta(days=1)))
    grains = {(one.table, one.grain) for one in retain(later).archived}
    assert {("silver_gpu_samples", grain) for grain in ("minute", "hour")} | {("silver_gpu_hours", "day")} <= grains
    assert_alike_but_for_samples(later.lake, whole.lake)
    later.build(is_forced=True)
    assert_alike_but_for_samples(later.lake, whole.lake)


@pytest.mark.slow
def test_samples_that_come_too_late_change_no_day_that_is_over(flow: Flow, site: Path, before: Lake) -> None:
    retain(flow)
    first = samples(site)[0]
    late = flow.config.lake.parent / "late" / first.name
    late.parent.mkdir()
    late.write_text(first.read_text().replace(" 0\n", " 1\n") + "\n")
    assert sum(one.is_new for one in flow.land([late, *samples(site)[:3]]).landings) == 1
    flow.build()
    assert_alike_but_for_samples(flow.lake, before)
    assert list(retain(flow).removed) == ["bronze_prometheus_samples"]
    assert_alike_but_for_samples(flow.lake, before)


@pytest.mark.slow
def test_killed_at_any_step_the_lake_is_as_it_was_or_as_it_should_be(flow: Flow, before: Lake, tmp_path: Path) -> None:
    steps = _steps_until_killed(0, flow.config)
    seen = set()
    for step in (steps * part // 8 for part in range(1, 8)):
        shutil.rmtree(tmp_path / "lake")
        shutil.copytree(before.root, tmp_path / "lake")
        assert _steps_until_killed(step, flow.config) == step
        assert rows_of(flow.lake, SUMS) == rows_of(before, SUMS)
        seen.add(bool(flow.lake.archive.state().parts))
        flow.build()
        assert_alike_but_for_samples(flow.lake, before)
    assert seen == {False, True}
    retain(flow)
    assert_alike_but_for_samples(flow.lake, before)
    assert inspect(flow.lake) == []


VICTIM = """
import os, sys
from datetime import datetime
from pathlib import Path
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.retention_settings import Retention
from gpulake.flow import Flow
from gpulake.flow.retaining import retain

lake, at, step = Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), int(sys.argv[3])
steps = [0]
def dying(act):
    def one(*arguments, **named):
        steps[0] += 1
        if steps[0] == step:
            print(step, flush=True)
            os._exit(9)
        return act(*arguments, **named)
    return one
os.fsync, os.replace = dying(os.fstat), dying(os.replace)
retain(Flow(Config(lake=lake, threads=1, retention=Retention(raw_days=4, minute_days=8)), FrozenClock(at)))
print(steps[0])
"""


def _steps_until_killed(step: int, config: Config) -> int:
    """Syncs and renames that a process made before it died at this one; 0: at none of them."""
    command = [sys.executable, "-c", VICTIM, str(config.lake), CLOCK.now().isoformat(), str(step)]
    return int(subprocess.run(command, check=False, capture_output=True, text=True).stdout)


SUMMED = ("energy_joules", "implausible_values", "cpu_seconds", "interval_seconds")
LAST = ("remapped", "last_xid", "pcie_link", "nvlink_links", "memory_total")
NAMES = ("machine_key", "gpu_index", "pid", "parent_pid", "unseen_energy_joules")


@pytest.mark.parametrize("table", list(SAMPLE_TABLES))
def test_a_rolled_up_sample_has_sums_means_and_last_counters(table: str) -> None:
    model = next(model for model in shipped_plan().models if model.name == table)
    kinds = {one.name: one.type for one in model.columns if one.type in ("double", "bigint")}
    with duckdb.connect() as connection:
        edges = "machine_key BIGINT, started_at TIMESTAMPTZ, ended_at TIMESTAMPTZ"
        connection.execute(f"CREATE SCHEMA built; CREATE TABLE built.silver_instances ({edges})")
        columns = ", ".join(f'"{one.name}" {one.type}' for one in model.columns)
        connection.execute(f"CREATE TABLE raw ({columns})")
        # For 10 seconds 1, then for 30 seconds 4; the third is of the next minute.
        for second, value, covers in (("00:00", 1, 10), ("00:10", 4, 30), ("01:10", 7, 10)):
            row = dict.fromkeys(kinds, str(value)) | {"covers_seconds": str(covers)}
            row |= {name: "0" for name in NAMES if name in kinds}
            row |= {"sampled_at": f"TIMESTAMPTZ '2026-01-01 00:{second}+00'"}
            names = ", ".join(f'"{one}"' for one in row)
            connection.execute(f"INSERT INTO raw ({names}) VALUES ({', '.join(row.values())})")
        query = rolled_up(model, "raw", 60, "built")
        first, last = connection.execute(f"FROM ({query}) ORDER BY sampled_at").to_arrow_table().to_pylist()

    def expected(column: str, kind: str) -> float:
        if column in NAMES:
            return 0
        if column in ("covers_seconds", *SUMMED):
            return 40 if column == "covers_seconds" else 5
        if column.endswith("_total") or column.startswith(LAST):
            return 4
        if column == "clock_event_reasons":
            return 1 | 4
        return 3.25 if kind == "double" else 3

    assert {column: first[column] for column in kinds} == {one: expected(one, kind) for one, kind in kinds.items()}
    assert (last["covers_seconds"], last["sampled_at"].minute) == (10, 1)


def test_settings_of_retention_are_checked() -> None:
    assert Retention().ages() == {}
    ages = checked(
        {"retention": {"raw_days": 14, "minute_days": 90, "tables": {"silver_process_samples": {"raw_days": 3}}}},
        "here",
    )
    assert ages.retention.ages()["silver_process_samples"] == Ages(raw_days=3)
    assert ages.retention.ages()["silver_gpu_samples"].minute_days == 90
    for wrong in (
        {"raw_days": 1},
        {"minute_days": 9},
        {"raw_days": 9, "minute_days": 8},
        {"tables": {"silver_jobs": {"raw_days": 3}}},
    ):
        with pytest.raises(ConfigError):
            checked({"retention": wrong}, "here")


def test_a_lake_that_keeps_everything_says_how_to_change_that(lake: Lake) -> None:
    with pytest.raises(UsageError, match="keeps everything"):
        retain(Flow(lake.config, CLOCK))
    with pytest.raises(LakeError, match="no build yet"):
        retain(Flow(replace(lake.config, retention=KEPT), CLOCK), is_dry_run=True)


def test_a_pointer_that_cannot_be_read_is_an_error(lake: Lake) -> None:
    (lake.root / "archive").mkdir()
    (lake.root / "archive" / archive.POINTER).write_text("{")
    with pytest.raises(LakeError, match="CURRENT cannot be read"), lake.reading():
        pass


@pytest.mark.slow
def test_the_command_says_what_was_done(flow: Flow) -> None:
    (flow.config.lake / "gpulake.toml").write_text("[retention]\nraw_days = 3\n")
    words = ["retention", "--lake", str(flow.config.lake)]
    dry = CliRunner().invoke(root, [*words, "--dry-run"], catch_exceptions=False).output
    assert "silver_gpu_samples rolled up, one a minute" in " ".join(dry.split())
    assert "removed" not in dry
    done = CliRunner().invoke(root, words, catch_exceptions=False).output
    assert "bronze_prometheus_samples" in done
    again = CliRunner().invoke(root, words, catch_exceptions=False)
    assert (again.exit_code, again.stdout) == (0, "")


def test_damage_of_the_archive_is_found_and_dropped_only_where_asked(lake: Lake) -> None:
    flow = Flow(lake.config, CLOCK)
    with lake.writing(), lake.connect() as connection:
        (part,) = lake.archive.write(connection, "silver_nodes", "all", "2026-01-01", "SELECT 'n' AS node_id")
        lake.archive.put(archive.State({}, [part]))
    assert inspect(lake) == []
    path = lake.archive.folder / part.file
    path.write_bytes(path.read_bytes()[:-1])
    (found,) = inspect(lake)
    assert (found.layer, found.path, found.detail) == (
        "archive",
        path,
        "its content is not what was written; restore it from a backup",
    )
    ((kept,), _), ((gone,), _) = flow.repair(is_dry_run=True), flow.repair(is_dry_run=True, may_drop=True)
    assert (kept.status, gone.status) == ("needs --drop", "planned")
    lake.archive.drop(part.file)
    assert (inspect(lake), path.exists()) == ([], False)
