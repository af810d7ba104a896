"""What a crash, a power cut or a failing disk leaves behind is mended by the next command, and nothing is mixed up."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

from conftest import count_of, rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import LakeBusyError, LakeError
from gpulake.flow import Flow
from gpulake.lake import Lake, delta
from gpulake.lake.builds import POINTER
from gpulake.show.health import check_all

TABLE = "gold_ledger_daily"


class PowerCutError(Exception):
    pass


def job_file(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "pai_job_table.csv"
    path.write_text("".join(f"{name},i-{name},u,Failed,1.0,2.0\n" for name in names))
    return path


def log_of(lake: Lake) -> list[Path]:
    return sorted((lake.bronze.folder / "bronze_job_events" / "_delta_log").glob("*.json"))


@pytest.fixture
def two(config: Config, tmp_path: Path) -> Lake:
    """A lake in which two files landed, one after the other."""
    for name in ("a", "b"):
        Flow(config).land([job_file(tmp_path / name, name)])
    return Lake(config)


def nothing(_: bytes) -> bytes:
    return b""


def a_beginning(whole: bytes) -> bytes:
    return whole[:40]


def all_lines_but_the_last(whole: bytes) -> bytes:
    return whole.rsplit(b"\n", 1)[0]


def zeros(whole: bytes) -> bytes:
    return bytes(len(whole))


@pytest.mark.parametrize("left", [nothing, a_beginning, all_lines_but_the_last, zeros])
def test_a_last_commit_that_is_cut_short_is_absent_and_landing_again_mends_it(
    two: Lake, tmp_path: Path, left: Callable[[bytes], bytes]
) -> None:
    last = log_of(two)[-1]
    last.write_bytes(left(last.read_bytes()))
    assert rows_of(two, "SELECT job_name FROM bronze_job_events") == [{"job_name": "a"}]
    assert [Path(landing.source).parent.name for landing in two.landings()] == ["a"]
    (seen,) = [check for check in check_all(two.config) if check.name == "bronze"]
    assert (seen.status, seen.detail.split(": ")[1]) == ("warn", str(last))
    paths = [tmp_path / "a" / "pai_job_table.csv", tmp_path / "b" / "pai_job_table.csv"]
    landings = Flow(two.config).land(paths).landings
    assert [landing.is_new for landing in landings] == [False, True]
    assert rows_of(two, "SELECT job_name FROM bronze_job_events ORDER BY ALL") == [{"job_name": "a"}, {"job_name": "b"}]


def test_a_last_commit_that_is_damaged_was_acknowledged_and_is_an_error(two: Lake) -> None:
    last = log_of(two)[-1]
    whole = last.read_bytes()
    for place in range(0, len(whole) - 2, 7):
        last.write_bytes(whole[:place] + b"\x01" + whole[place + 1 :])
        assert delta.cut_commits(last.parents[1]) == []
    last.write_bytes(b"garbage\n")
    with pytest.raises(LakeError, match=r"cannot read bronze_job_events: its log: .* cannot be read"):
        count_of(two, "bronze_job_events")
    last.write_bytes(whole)
    assert count_of(two, "bronze_job_events") == 2


def test_every_beginning_of_a_commit_is_known_to_be_cut_short(two: Lake) -> None:
    last = log_of(two)[-1]
    whole = last.read_bytes()
    taken_for_damage = []
    for end in range(len(whole) - 1):
        last.write_bytes(whole[:end])
        if not delta.cut_commits(last.parents[1]):
            taken_for_damage.append(whole[:end][-2:])
    assert set(taken_for_damage) <= {b"}}"}


def test_of_two_versions_the_later_commit_holds_though_the_clock_was_set_back(config: Config, tmp_path: Path) -> None:
    for day, name in ((2, "old"), (1, "new")):
        clock = FrozenClock(datetime(2026, 1, day, tzinfo=UTC))
        Flow(config, clock).land([job_file(tmp_path / "in", name)], is_replacing=True)
    lake = Lake(config)
    assert [landing.version for landing in lake.landings()] == [1, 2]
    assert rows_of(lake, "SELECT version, is_live FROM landings ORDER BY version") == [
        {"version": 1, "is_live": False},
        {"version": 2, "is_live": True},
    ]


def test_data_files_that_no_commit_names_go_when_the_command_is_repeated(
    two: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PowerCutError

    third = job_file(tmp_path / "c", "c")
    with monkeypatch.context() as patched:
        patched.setattr(delta, "commit", fail)
        with pytest.raises(PowerCutError):
            Flow(two.config).land([third])
    folder = two.bronze.folder / "bronze_job_events"
    assert len(list(folder.glob("*.parquet"))) == 3
    Flow(two.config).land([third])
    assert sorted(folder.glob("*.parquet")) == two.bronze.files("bronze_job_events")
    assert count_of(two, "bronze_job_events") == 3
    assert not two.staging.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("place", range(6))
def test_a_sync_that_fails_is_an_error_and_the_same_command_mends_it(
    two: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, place: int
) -> None:
    third = job_file(tmp_path / "c", "c")
    synced = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == place + 1:
            raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        try:
            Flow(two.config).land([third])
        except LakeBusyError as error:
            assert "run the command again" in error.hint  # noqa: PT017 - the later places may not be reached
    assert len(synced) > min(place, 2), "the rows, the commit and their folder are synced at least"
    Flow(two.config).land([third])
    assert rows_of(two, "SELECT job_name FROM bronze_job_events ORDER BY ALL") == [
        {"job_name": name} for name in ("a", "b", "c")
    ]
    assert sorted((two.bronze.folder / "bronze_job_events").glob("*.parquet")) == two.bronze.files("bronze_job_events")


def test_a_broken_checkpoint_costs_nothing(two: Lake, tmp_path: Path) -> None:
    folder = two.bronze.folder / "bronze_job_events"
    deltalake.DeltaTable(str(folder)).create_checkpoint()
    (checkpoint,) = (folder / "_delta_log").glob("*.checkpoint*.parquet")
    checkpoint.write_bytes(b"")
    assert count_of(two, "bronze_job_events") == 2
    Flow(two.config).land([job_file(tmp_path / "c", "c")])
    assert count_of(two, "bronze_job_events") == 3


# Gold


def builds_of_gold(lake: Lake) -> set[str]:
    return {lake.exports.build(folder.name) for folder in lake.gold.iterdir() if folder.is_dir()}


@pytest.mark.slow
def test_a_crash_in_publishing_mixes_no_builds_for_longer_than_until_the_next_command(
    built_lake: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(built_lake)
    real, calls = delta.replace, iter(range(100))

    def crash(*given: object, **named: object) -> None:
        if next(calls) == 5:
            raise PowerCutError
        real(*given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(delta, "replace", crash)
        with pytest.raises(PowerCutError):
            Flow(built_lake).build(is_forced=True)
    current = lake.builds.current()
    assert current is not None
    assert not lake.exports.is_of(current)
    assert len(builds_of_gold(lake)) == 2
    Flow(built_lake).land([job_file(tmp_path / "in", "later")])
    assert builds_of_gold(lake) == {current.stem}
    assert lake.exports.is_of(current)


def test_each_export_names_its_build(built_lake: Config) -> None:
    lake = Lake(built_lake)
    current = lake.builds.current()
    assert current is not None
    assert builds_of_gold(lake) == {current.stem}
    assert (lake.gold / POINTER).read_text() == current.stem
    (file,) = deltalake.DeltaTable(str(lake.gold / TABLE)).file_uris()
    assert pq.read_metadata(file).metadata[b"build_id"].decode() == current.stem


def empty_the_data(folder: Path) -> None:
    for path in folder.glob("*.parquet"):
        path.write_bytes(b"")


def empty_the_log(folder: Path) -> None:
    for path in (folder / "_delta_log").glob("*.json"):
        path.write_bytes(b"{")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [empty_the_data, empty_the_log, shutil.rmtree])
def test_gold_that_cannot_be_read_is_seen_by_doctor_and_exported_anew_by_build(
    built_lake: Config, damage: Callable[[Path], None]
) -> None:
    lake = Lake(built_lake)
    rows = deltalake.DeltaTable(str(lake.gold / TABLE)).to_pyarrow_table()
    damage(lake.gold / TABLE)
    (check,) = [check for check in check_all(built_lake) if check.name == "build"]
    assert (check.status, check.detail.split("; ")[1]) == ("warn", f"Delta tables that cannot be read: {TABLE}")
    assert not Flow(built_lake).build().is_new
    assert deltalake.DeltaTable(str(lake.gold / TABLE)).to_pyarrow_table() == rows
    assert [check.status for check in check_all(built_lake) if check.name == "build"] == ["ok"]


# Builds


def cut_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut_to_half, empty, Path.unlink])
def test_a_build_that_cannot_be_read_is_seen_by_doctor_and_made_anew(
    built_lake: Config, damage: Callable[[Path], None]
) -> None:
    lake = Lake(built_lake)
    before = rows_of(lake, f"SELECT * FROM {TABLE} ORDER BY ALL")
    current = lake.builds.current()
    assert current is not None
    damage(current)
    assert [check.status for check in check_all(built_lake) if check.name == "build"] == ["fail"]
    assert Flow(built_lake).build().is_new
    assert rows_of(lake, f"SELECT * FROM {TABLE} ORDER BY ALL") == before


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"../../etc/passwd", b"\0" * 30])
def test_a_pointer_that_names_no_build_is_an_error_for_readers_and_build_makes_it_anew(
    built_lake: Config, content: bytes
) -> None:
    lake = Lake(built_lake)
    (lake.builds.folder / POINTER).write_bytes(content)
    with pytest.raises(LakeError, match="CURRENT names no build") as caught:
        count_of(lake, TABLE)
    assert caught.value.hint == "make it anew: gpulake build"
    assert Flow(built_lake).build().is_new
    assert count_of(lake, TABLE) > 0
