"""Gold for other engines: another day writes the files of its days, and the tables are those of the build."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from gpulake.core.config import Config
from gpulake.core.errors import LakeBusyError
from gpulake.lake import Lake
from gpulake.lake.gold import PART_ROWS, Changes

BEGIN = date(2026, 3, 1)
TABLES = ("gold_large", "gold_small", "gold_same")


def day(number: int) -> date:
    return BEGIN + timedelta(days=number)


def publish(lake: Lake, build: str, days: dict[int, str], changes: Changes | None = None) -> None:
    """A large table with a word for each of its days, a small one, and one that never changes."""
    with lake.writing(), lake.stage(build) as staging:
        rows = " UNION ALL ".join(
            f"SELECT DATE '{day(number)}' AS dt, i, '{word}' AS word FROM range({PART_ROWS}) t(i)"
            for number, word in days.items()
        )
        staging.connection.execute(f"CREATE TABLE lake.main.gold_large AS {rows}")
        staging.connection.execute(f"CREATE TABLE lake.main.gold_small AS SELECT '{build}' AS word")
        staging.connection.execute("CREATE TABLE lake.main.gold_same AS SELECT 1 AS one")
        staging.publish(changes)


def exported(lake: Lake, table: str) -> tuple[set[str], dict[object, tuple[object, ...]]]:
    """The files of a table, and what other engines read in them."""
    files = DeltaTable(str(lake.gold / table)).file_uris()
    summed = "SELECT dt, count(*), min(word), max(word) FROM read_parquet(?) GROUP BY dt"
    return set(files), {row[0]: row[1:] for row in duckdb.execute(summed, [files]).fetchall()}


@pytest.mark.parametrize("added", [{3: "new"}, {3: "new", 4: "new"}, {-1: "new"}])
def test_another_day_writes_the_files_of_its_days_alone(tmp_path: Path, added: dict[int, str]) -> None:
    lake = Lake(Config(lake=tmp_path / "lake")).create()
    publish(lake, "one", {0: "a", 1: "b", 2: "c"})
    before = {table: set(DeltaTable(str(lake.gold / table)).file_uris()) for table in TABLES}
    assert len(before["gold_large"]) == 3
    base = lake.builds.current()
    assert base
    touched = frozenset(map(day, [1, *added]))
    changes = Changes(base, frozenset({"gold_same"}), {"gold_large": touched})
    now = {0: "a", 1: "changed", 2: "c", **added}
    publish(lake, "two", now, changes)
    files, found = exported(lake, "gold_large")
    assert found == {day(number): (PART_ROWS, word, word) for number, word in now.items()}
    assert len(files & before["gold_large"]) == (2 if -1 not in added else 1)
    assert set(DeltaTable(str(lake.gold / "gold_same")).file_uris()) == before["gold_same"]
    assert not set(DeltaTable(str(lake.gold / "gold_small")).file_uris()) & before["gold_small"]
    assert {lake.exports.build(table) for table in TABLES} == {"two"}
    assert lake.exports.is_whole(lake.builds.folder / "two.duckdb", TABLES)


def test_what_was_exported_of_another_build_is_exported_whole(tmp_path: Path) -> None:
    lake = Lake(Config(lake=tmp_path / "lake")).create()
    publish(lake, "one", {0: "a", 1: "b"})
    publish(lake, "two", {0: "c", 1: "d"})
    changes = Changes(lake.builds.folder / "one.duckdb", frozenset({"gold_same"}), {"gold_large": frozenset({day(1)})})
    publish(lake, "three", {0: "e", 1: "f"}, changes)
    assert exported(lake, "gold_large")[1] == {day(0): (PART_ROWS, "e", "e"), day(1): (PART_ROWS, "f", "f")}


def test_a_table_that_cannot_be_exported_leaves_the_export_unfinished(tmp_path: Path) -> None:
    lake = Lake(Config(lake=tmp_path / "lake")).create()
    publish(lake, "one", {0: "a"})
    (lake.gold / "gold_small").rename(tmp_path / "aside")
    (lake.gold / "gold_small").write_text("in the way", encoding="utf-8")
    with pytest.raises(LakeBusyError):
        publish(lake, "two", {0: "b"})
    assert not lake.exports.is_of(lake.builds.folder / "two.duckdb")
    (lake.gold / "gold_small").unlink()
    with lake.writing():
        pass
    assert lake.exports.is_whole(lake.builds.folder / "two.duckdb", TABLES)
