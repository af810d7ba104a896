"""Small files of bronze become larger ones; what landed, what is in force and what can be undone stays as it was."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.types import Landing
from gpulake.flow import Flow
from gpulake.lake import compaction, delta
from gpulake.lake.deep import inspect

TABLE = "bronze_job_events"
AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Four files are many."""
    monkeypatch.setattr(compaction, "FAN_IN", 4)
    return 4


def landed(config: Config, folder: Path, number: int, jobs: str = "", is_replacing: bool = False) -> Landing:
    """Lands a file of its own name with a job of its number, or with these jobs."""
    folder = folder / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pai_job_table.csv"
    path.write_text("".join(f"{job},i,u,Failed,{number}.0,2.0\n" for job in jobs.split() or [f"j{number}"]))
    flow = Flow(config, FrozenClock(AT + timedelta(minutes=number)))
    return flow.land([path], is_replacing=is_replacing).landings[0]


def jobs_of(config: Config) -> list[object]:
    return [row["job_name"] for row in rows_of(Flow(config).lake, f"SELECT job_name FROM {TABLE} ORDER BY ALL")]


def files_of(config: Config) -> list[Path]:
    return Flow(config).lake.bronze.files(TABLE)


def numbered(count: int) -> list[str]:
    return sorted(f"j{number}" for number in range(count))


def test_a_landing_a_minute_does_not_leave_a_file_a_minute(config: Config, tmp_path: Path) -> None:
    for number in range(compaction.FAN_IN - 1):
        landed(config, tmp_path, number)
    assert len(files_of(config)) == compaction.FAN_IN - 1
    last = landed(config, tmp_path, compaction.FAN_IN - 1)
    (file,) = files_of(config)
    lake = Flow(config).lake
    assert (jobs_of(config), inspect(lake)) == (numbered(compaction.FAN_IN), [])
    assert lake.bronze.slices(TABLE)[last.file] == (file.name, compaction.FAN_IN - 1, 1)
    assert sum(landing.rows_landed for landing in lake.held_landings()) == compaction.FAN_IN
    # Other engines see the same rows, and that none of them changed.
    table = DeltaTable(str(lake.bronze.folder / TABLE))
    assert table.to_pyarrow_table().num_rows == compaction.FAN_IN
    adds = table.get_add_actions(flatten=True)
    assert adds.column("num_records").to_pylist() == [compaction.FAN_IN]
    (run,) = rows_of(lake, "SELECT status, detail FROM runs WHERE step = 'compact'")
    assert run == {"status": "succeeded", "detail": '{"table":"bronze_job_events","files":32}'}


@pytest.mark.usefixtures("few")
def test_files_of_about_as_many_landings_are_compacted_together(config: Config, tmp_path: Path) -> None:
    sizes = []
    for number in range(17):
        landed(config, tmp_path, number)
        sizes.append(len(files_of(config)))
    assert sizes == [1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3]
    assert jobs_of(config) == numbered(17)


@pytest.mark.usefixtures("few")
def test_the_same_file_lands_once_after_it_was_compacted(config: Config, tmp_path: Path) -> None:
    before = [landed(config, tmp_path, number) for number in range(4)]
    again = landed(config, tmp_path, 2)
    assert (again.is_new, again.file, jobs_of(config)) == (False, before[2].file, numbered(4))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("chance", range(6))
def test_whatever_is_landed_replaced_and_undone_the_rows_are_those_without_compaction(
    config: Config, tmp_path: Path, chance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Config(lake=tmp_path / "plain")
    steps = random.Random(chance)
    for turn in range(14):
        number, word, kind = steps.randrange(7), f"t{turn} u{turn}", steps.choice(["add", "add", "replace", "undo"])
        for one, fan_in in ((config, 4), (plain, 1000)):
            monkeypatch.setattr(compaction, "FAN_IN", fan_in)
            flow = Flow(one, FrozenClock(AT + timedelta(minutes=turn)))
            if kind != "undo":
                landed(one, tmp_path, number, word, is_replacing=kind == "replace")
            elif held := flow.lake.create().held_landings():
                flow.undo([sorted(held, key=lambda one: (one.source, one.version))[number % len(held)].landing_id])
        assert jobs_of(config) == jobs_of(plain)
        assert len(files_of(config)) <= len(files_of(plain))
    first, second = (
        [(one.source, one.version, one.sha256) for one in Flow(lake).lake.held_landings()] for lake in (config, plain)
    )
    assert (first, inspect(Flow(config).lake)) == (second, [])


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_build_is_extended_by_what_landed_since_and_left_alone_by_compaction(config: Config, tmp_path: Path) -> None:
    for number in range(3):
        landed(config, tmp_path, number)
    Flow(config).build()
    for number in range(3, 6):
        landed(config, tmp_path, number)
    # Of those that the build has, one file; the others are not mixed with them.
    assert len(files_of(config)) == 4
    for number in range(6, 8):
        landed(config, tmp_path, number)
    assert len(files_of(config)) == 2
    built = Flow(config).build()
    assert (built.is_new, built.touched is None) == (True, False)
    assert len(files_of(config)) == 2
    assert not Flow(config).build().is_new
    landed(config, tmp_path, 8)
    assert len(files_of(config)) == 3
    # Left out of one build, a landing of the compacted file is in the next one.
    source = str(tmp_path / "5" / "pai_job_table.csv")
    counted = "SELECT count(*) AS jobs FROM silver_jobs"
    assert (Flow(config).build(without=[source]).left_out, rows_of(Flow(config).lake, counted)) == (
        (source,),
        [{"jobs": 8}],
    )
    Flow(config).build()
    assert (rows_of(Flow(config).lake, counted), jobs_of(config)) == ([{"jobs": 9}], numbered(9))


@pytest.mark.usefixtures("few")
def test_what_became_part_of_another_file_goes_after_a_week_and_can_still_be_undone(
    config: Config, tmp_path: Path
) -> None:
    first = [landed(config, tmp_path, number) for number in range(4)]
    folder = Flow(config).lake.bronze.folder / TABLE
    assert all((folder / landing.file).is_file() for landing in first)
    replaced = landed(config, tmp_path, 9, "old")
    landed(config, tmp_path, 9, "new", is_replacing=True)
    week = 7 * 24 * 60
    for number in range(week + 10, week + 13):
        landed(config, tmp_path, number)
    assert [landing.file for landing in first if (folder / landing.file).is_file()] == []
    # What was replaced is kept, as ever.
    assert (folder / replaced.file).is_file()
    Flow(config).undo([first[1].landing_id])
    assert "j1" not in jobs_of(config)
    Flow(config).undo([str(tmp_path / "9")])
    assert "old" in jobs_of(config)
    assert inspect(Flow(config).lake) == []


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("is_late", [False, True])
def test_a_damaged_compacted_file_is_taken_apart_and_costs_only_what_cannot_land_again(
    config: Config, tmp_path: Path, is_late: bool
) -> None:
    first = [landed(config, tmp_path, number) for number in range(4)]
    (file,) = files_of(config)
    if is_late:  # the files that it was made of are gone
        for landing in first:
            (file.parent / landing.file).unlink()
        Path(first[3].source).unlink()
    file.write_bytes(b"torn")
    repairs, _ = Flow(config).repair(may_drop=True)
    assert repairs[0].action == "take it apart"
    actions = sorted(repair.action.split()[0] for repair in repairs[1:])
    assert actions == (["land"] * 3 + ["take"] if is_late else [])
    assert (jobs_of(config), inspect(Flow(config).lake)) == (numbered(3 if is_late else 4), [])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("has_parts", [False, True])
@pytest.mark.parametrize("version", [1, 4])
def test_a_lost_commit_of_a_compacted_table_costs_no_row(
    config: Config, tmp_path: Path, version: int, has_parts: bool
) -> None:
    first = [landed(config, tmp_path, number) for number in range(4)]
    folder = Flow(config).lake.bronze.folder / TABLE
    for landing in () if has_parts else first:
        (folder / landing.file).unlink()
    (folder / "_delta_log" / f"{version:020}.json").unlink()
    Flow(config).repair(may_drop=True)
    assert (jobs_of(config), inspect(Flow(config).lake)) == (numbered(4), [])
    Flow(config).undo([first[2].source])
    assert jobs_of(config) == ["j0", "j1", "j3"]


def test_the_history_is_summed_up_and_read_from_the_commits_where_that_is_damaged(
    config: Config, tmp_path: Path
) -> None:
    lake = Flow(config).lake
    for number in range(3):
        landed(config, tmp_path, number)
    delta.sum_up(lake.bronze.folder / TABLE)
    for number in range(3, 5):
        landed(config, tmp_path, number)
    whole = lake.bronze.landings(TABLE)
    summary = lake.bronze.folder / TABLE / "_delta_log" / delta.HISTORY
    content = summary.read_bytes()
    assert [landing.version for landing in whole] == [1] * 5
    for damaged in (b"", content[:-1], content.replace(b"version", b"veraion"), b"x\n{}", b"9" + content):
        summary.write_bytes(damaged)
        assert lake.bronze.landings(TABLE) == whole
    summary.write_bytes(content)
    (summary.parent / f"{0:020}.json").write_bytes(b"unread")
    assert lake.bronze.landings(TABLE) == whole


# Lands four files, then one more for each number of the input: each in a fork that dies at that step on the disk.
VICTIM = """
import os, sys
from pathlib import Path
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import compaction
import gpulake.land.landing, gpulake.flow.compacting
compaction.FAN_IN = 4
lake, path, die_at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
def dying(act, steps=[0]):
    def one(*arguments, **named):
        steps[0] += 1
        if steps[0] == int(step):
            os._exit(9)
        return act(*arguments, **named)
    return one
for step in die_at:
    child = os.fork()
    if not child:
        os.fsync, os.replace = dying(os.fsync), dying(os.replace)
        Flow(Config(lake=lake, threads=1)).land([path])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    if sys.stdin.readline() == "stop":
        break
"""


@pytest.mark.slow
def test_killed_at_any_step_of_a_compaction_no_row_is_lost_or_twice(config: Config, tmp_path: Path) -> None:
    for number in range(3):
        landed(config, tmp_path, number)
    (tmp_path / "3").mkdir()
    path = tmp_path / "3" / "pai_job_table.csv"
    path.write_text("j3,i,u,Failed,3.0,2.0\n")
    command = [sys.executable, "-c", VICTIM, str(config.lake), str(path), *map(str, range(1, 60))]
    seen, codes = set(), []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        for line in process.stdout:
            codes.append(int(line))
            assert jobs_of(config) in (numbered(3), numbered(4))
            seen.add((len(jobs_of(config)), len(files_of(config))))
            # The last landing is taken back, so that the next victim lands and compacts as well.
            if (3, 3) not in seen or len(jobs_of(config)) == 4:
                Flow(config).undo([str(path)])
            process.stdin.write("\n" if codes[-1] else "stop")
            process.stdin.flush()
            if not codes[-1]:
                break
        process.communicate()
    assert codes[-1] == 0
    assert {(3, 3), (4, 4), (4, 1)} <= seen
    with Flow(config).lake.writing():
        pass
    assert inspect(Flow(config).lake) == []
