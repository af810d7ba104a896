"""A user who is forgotten is nowhere in the lake: not in rows, journals, logs, old versions or old builds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.flow.storing import forget
from gpulake.lake import Lake
from gpulake.lake.deep import inspect
from gpulake.lake.forgetting import Name

JOBS = "".join(f"j{n},i{n},{user},Failed,{n}.0,{n}00.0\n" for n, user in enumerate(["alice", "bob", "alice2"], start=1))


@pytest.fixture
def named(config: Config, tmp_path: Path, clock: FrozenClock) -> Flow:
    """A lake in which alice is in a path, in rows, in rows that do not parse, in journals, and in an older version."""
    flow = Flow(config, clock)
    path = tmp_path / "alice" / "pai_job_table.csv"
    path.parent.mkdir()
    path.write_text(JOBS + "Alice,too,few\n")
    tasks = tmp_path / "alice" / "pai_task_table.csv"
    tasks.write_text("".join(f"j{n},worker,1,Terminated,{n}.0,{n}00.0,600,29,100,T4\n" for n in (1, 2, 3)))
    instances = tmp_path / "alice" / "pai_instance_table.csv"
    rows = (f"j{n},worker,i{n},w{n},x{n},Terminated,{n}.0,{n}00.0,m1\n" for n in (1, 2, 3))
    instances.write_text("".join(rows))
    flow.land([path, tasks, instances])
    flow.build()
    path.write_text(JOBS.replace("Failed", "Terminated"))
    flow.land([path], is_replacing=True)
    flow.build()
    with flow.step("land") as detail:
        detail["path"] = "/home/ALICE/run.log"
    (config.lake / "report.html").write_text("<td>alice</td>")
    return flow


def mentions(lake: Lake, user: str) -> Iterator[str]:
    """Every file that has it, in bytes as they are and in what they say once decompressed."""
    for path in sorted(path for path in lake.root.rglob("*") if path.is_file()):
        texts = [path.read_bytes().decode(errors="replace")]
        if path.suffix == ".parquet":
            texts.append(
                str(pq.read_metadata(path).metadata) + json.dumps(pq.read_table(path).to_pylist(), default=str)
            )
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as build:
                tables = [str(name) for (name,) in build.execute("SHOW TABLES").fetchall()]
                texts += [json.dumps(build.execute(f'FROM "{name}"').fetchall(), default=str) for name in tables]
        name = Name(user, "")
        if any(name.count(text) for text in texts):
            yield path.relative_to(lake.root).as_posix()


def users(lake: Lake) -> list[object]:
    return [row["user"] for row in rows_of(lake, 'SELECT "user" FROM bronze_job_events ORDER BY job_name')]


def test_a_user_is_replaced_by_a_pseudonym_everywhere(named: Flow) -> None:
    lake = named.lake
    places = list(mentions(lake, "alice"))
    assert {place.split("/")[0] for place in places} == {
        "bronze",
        "builds",
        "quarantine",
        "runs.jsonl",
        "report.html",
        "gold",
    }
    planned = forget(named, "alice", is_dry_run=True)
    assert list(mentions(lake, "alice")) == places
    done = forget(named, "alice")
    assert {one.where: one.rows for one in done.forgotten} == {one.where: one.rows for one in planned.forgotten}
    assert list(mentions(lake, "alice")) == []
    assert users(lake) == [done.instead, "bob", "alice2"]
    jobs = rows_of(lake, "SELECT user_id FROM silver_jobs ORDER BY user_id")
    assert [row["user_id"] for row in jobs] == sorted([done.instead, "bob", "alice2"])
    assert inspect(lake) == []
    assert lake.journals.damaged_lines() == []
    # The lake goes on: what had landed is known, and lands only once.
    assert [one.rows_landed for one in lake.held_landings()] == [3, 3, 3]
    assert not named.build().is_new
    assert [one.where for one in forget(named, "alice").forgotten] == []


def test_rows_of_a_user_can_be_deleted(named: Flow) -> None:
    done = forget(named, "alice", is_deleting=True)
    assert list(mentions(named.lake, "alice")) == []
    assert users(named.lake) == ["bob", "alice2"]
    assert [row["user_id"] for row in rows_of(named.lake, "SELECT user_id FROM silver_jobs ORDER BY 1")] == [
        "alice2",
        "bob",
    ]
    assert inspect(named.lake) == []
    assert done.instead == "deleted-user"


@pytest.mark.parametrize("user", ["ann.o'neil", "zoë", "u+1@site", "x y z"])
def test_names_of_every_kind_are_forgotten(config: Config, tmp_path: Path, clock: FrozenClock, user: str) -> None:
    flow = Flow(config, clock)
    path = tmp_path / user / "pai_job_table.csv"
    path.parent.mkdir()
    path.write_text(f"j1,i,{user},Failed,1.0,2.0\nj2,{user}-{user},other,Failed,1.0,2.0\n")
    flow.land([path])
    flow.build()
    done = forget(flow, user)
    assert list(mentions(flow.lake, user)) == []
    assert users(flow.lake) == [done.instead, "other"]


@pytest.mark.parametrize("user", ["", "al", 'a"b"c', "a\\b\\c", "a\nb"])
def test_a_name_that_would_hit_others_is_refused(lake: Lake, user: str) -> None:
    with pytest.raises(UsageError):
        forget(Flow(lake.config), user)


def test_the_command_reports_what_it_did(named: Flow) -> None:
    words = ["forget", "--user", "alice", "--lake", str(named.config.lake)]
    dry = CliRunner().invoke(root, [*words, "--dry-run"], catch_exceptions=False)
    assert "bronze_job_events" in dry.stdout
    done = CliRunner().invoke(root, [*words, "--json"], catch_exceptions=False)
    found = {one["where"]: one["rows"] for one in json.loads(done.stdout)["forgotten"]}
    assert found["report.html"] == 1
    assert list(mentions(named.lake, "alice")) == []
