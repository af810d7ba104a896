"""A backup is a lake that gives the same answers; what is damaged in it is said by name."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.disk import replace_text
from gpulake.core.errors import GpulakeError, LakeError, UsageError
from gpulake.flow import Flow
from gpulake.flow.storing import back_up, check_backup, restore
from gpulake.lake import Lake
from gpulake.lake.backup import BLOCK_BYTES, _listed, _whole_lines
from gpulake.lake.deep import inspect


def content(config: Config) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but the runs of our own steps."""
    lake = Lake(config).open()
    with lake.reading() as reader:
        tables = sorted(reader.tables() - {"runs"})
        return {table: reader.rows(f'SELECT * FROM "{table}" AS one ORDER BY hash(one)') for table in tables}


def count_of(lake: Lake, query: str) -> int:
    return int(str(rows_of(lake, query)[0]["n"]))


def restored(config: Config, backup: Path, name: str = "again", snapshot: str = "") -> Config:
    again = replace(config, lake=config.lake.parent / name)
    restore(Flow(again), backup, snapshot)
    return again


@pytest.mark.slow
def test_a_restored_lake_gives_the_same_answers_and_can_be_written(
    built_lake: Config, tmp_path: Path, clock: FrozenClock
) -> None:
    taken = back_up(Flow(built_lake, clock), tmp_path / "backup")
    again = restored(built_lake, tmp_path / "backup")
    assert content(again) == content(built_lake)
    assert inspect(Lake(again).open()) == []
    assert not Flow(again, clock).build().is_new
    assert (taken.files, taken.bytes) == (taken.new_files, taken.new_bytes)


@pytest.mark.slow
def test_a_second_snapshot_copies_only_what_is_new(built_lake: Config, tmp_path: Path, clock: FrozenClock) -> None:
    backup = tmp_path / "backup"
    first = back_up(Flow(built_lake, clock), backup)
    before = content(built_lake)
    path = tmp_path / "pai_job_table.csv"
    path.write_text("j1,i,u,Failed,1.0,2.0\n")
    Flow(built_lake, clock).land([path])
    second = back_up(Flow(built_lake, clock), backup)
    # A data file, its commit, and the journal of runs.
    assert (second.files, second.new_files) == (first.files + 2, 3)
    assert content(restored(built_lake, backup, "first", first.snapshot_id)) == before
    assert content(restored(built_lake, backup, "second")) == content(built_lake)
    kept = back_up(Flow(built_lake, clock), backup, keep=1)
    assert [one.snapshot_id for one in check_backup(backup)] == [kept.snapshot_id]
    assert len(list((backup / "objects").glob("*/*"))) <= kept.files


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_damage_of_a_backup_is_an_error_that_names_the_file(
    built_lake: Config, tmp_path: Path, clock: FrozenClock, damage: str
) -> None:
    backup = tmp_path / "backup"
    back_up(Flow(built_lake, clock), backup)
    (snapshot,) = check_backup(backup)
    name = next(name for name in snapshot.files if name.startswith("builds/2"))
    path = backup / "objects" / snapshot.files[name].sha256[:2] / snapshot.files[name].sha256
    if damage == "changed":
        content = bytearray(path.read_bytes())
        content[5_000] ^= 1
        path.write_bytes(content)
    else:
        path.unlink()
    for act in (lambda: check_backup(backup), lambda: restored(built_lake, backup)):
        with pytest.raises(LakeError) as caught:
            act()
        assert caught.value.message == f"{path} is damaged, which is {name} of the lake"
    assert not (built_lake.lake.parent / "again").exists()
    assert not list(built_lake.lake.parent.glob(".again*"))


def test_a_damaged_list_of_a_snapshot_is_an_error(built_lake: Config, tmp_path: Path, clock: FrozenClock) -> None:
    backup = tmp_path / "backup"
    taken = back_up(Flow(built_lake, clock), backup)
    path = backup / "snapshots" / f"{taken.snapshot_id}.json"
    path.write_text(path.read_text().replace("builds/", "built/"))
    with pytest.raises(LakeError, match=f"{taken.snapshot_id}.json is damaged: its content is not what was written"):
        restored(built_lake, backup)


def test_folders_of_something_else_are_left_alone(built_lake: Config, tmp_path: Path, clock: FrozenClock) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "photo.jpg").write_text("")
    for folder in (other, built_lake.lake / "backup", built_lake.lake.parent):
        with pytest.raises(UsageError):
            back_up(Flow(built_lake, clock), folder)
    with pytest.raises(UsageError, match="has no backup"):
        check_backup(other)
    back_up(Flow(built_lake, clock), tmp_path / "backup")
    with pytest.raises(UsageError, match="is not empty"):
        restored(built_lake, tmp_path / "backup", "other")
    assert [path.name for path in other.iterdir()] == ["photo.jpg"]


def test_a_journal_is_copied_as_it_was_listed(built_lake: Config) -> None:
    lake = Lake(built_lake).open()
    replaced, grown = lake.journals.path("test_results"), lake.journals.path("runs")
    before = {path.name: path.read_bytes() for path in (replaced, grown)}
    with grown.open("ab") as file:
        file.write(b'{"cut')
    with closing(_listed(lake)) as listing:
        replace_text(replaced, "{}\n")  # as the next build does
        with grown.open("ab") as file:
            file.write(b' short"}\n')
        found = {name: listing.opened[name].read(listing.sizes[name]) for name in before}
    assert found == before


@pytest.mark.parametrize("content", [b"", b"no line", b"one\n", b"one\ntwo", b"one\n" + b"x" * (2 * BLOCK_BYTES)])
def test_whole_lines_end_at_the_last_newline(content: bytes) -> None:
    file = BytesIO(content)
    assert (_whole_lines(file), file.tell()) == (content.rfind(b"\n") + 1, 0)


WRITER = """
import sys
from pathlib import Path
from gpulake.core.config import Config
from gpulake.flow import Flow

config, folder, number = Config(lake=Path(sys.argv[1]), threads=1), Path(sys.argv[2]), 0
while not (folder / "stop").exists():
    number += 1
    path = folder / f"{number}" / "pai_job_table.csv"
    path.parent.mkdir()
    path.write_text(f"n{number},i,u,Failed,{number}.0,2.0\\n")
    Flow(config).land([path])
    if number % 3 == 0:
        Flow(config).build()
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_backup_taken_while_landings_and_builds_run_is_consistent(config: Config, tmp_path: Path) -> None:
    folder, backup = tmp_path / "raw", tmp_path / "backup"
    folder.mkdir()
    command = [sys.executable, "-c", WRITER, str(config.lake), str(folder)]
    seen: list[tuple[int, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for line in writer.stdout:
            number = int(line)
            if number < 4:
                continue
            try:
                back_up(Flow(config), backup, keep=2)
            except GpulakeError as error:
                raise AssertionError(f"while {number} landed: {error.message}") from error
            again = Lake(restored(config, backup, f"again{number}"))
            assert inspect(again.open()) == []
            landed = count_of(again, "SELECT count(*) AS n FROM bronze_job_events")
            built = count_of(again, "SELECT count(*) AS n FROM silver_jobs")
            inputs = count_of(again, "SELECT sum(rows)::BIGINT AS n FROM build_inputs")
            # What was acknowledged before it began is in it, and the build has rows that landed.
            assert number <= landed <= number + 60
            assert built == inputs <= landed
            seen.append((landed, built))
            if number >= 12:
                (folder / "stop").touch()
                break
        writer.communicate()
    assert len(set(seen)) > 2


def test_the_commands_say_what_was_done(built_lake: Config, tmp_path: Path) -> None:
    backup, again = str(tmp_path / "backup"), str(tmp_path / "again")
    answer = CliRunner().invoke(root, ["backup", backup, "--lake", str(built_lake.lake)], catch_exceptions=False)
    (snapshot,) = check_backup(tmp_path / "backup")
    size = f"{len(snapshot.files):,} files, {snapshot.bytes:,} bytes"
    assert answer.output == f"Snapshot {snapshot.snapshot_id}: {size}; {size} copied.\n"
    answer = CliRunner().invoke(root, ["restore", backup, again], catch_exceptions=False)
    assert answer.output == f"Restored {size}, of snapshot {snapshot.snapshot_id} to {again}.\n"
    answer = CliRunner().invoke(root, ["backup", backup, "--check", "--json"], catch_exceptions=False)
    assert f'"snapshot_id": "{snapshot.snapshot_id}"' in answer.output
