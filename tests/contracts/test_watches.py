"""What holds for every watch: it finds what it is there for, says all of it, and survives any table."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from detect.scenes import BEGIN, COLUMNS, SCENES, lake_of
from gpulake.core.types import Finding
from gpulake.detect.watches import WATCHES
from gpulake.detect.watchlist import rescore, run_watches

EVERY = pytest.mark.parametrize("name", [name for name in WATCHES if name in SCENES])
HOSTILE = "x'; DROP TABLE silver_jobs; --\" {0} %s \x1b[31m<b>\n"


def findings(tables: Any) -> list[Finding]:
    with lake_of(tables) as read:
        return run_watches(read)


def test_every_watch_has_a_scene() -> None:
    missing = sorted(set(WATCHES) - set(SCENES))
    assert not missing, f"watch {missing[0]}: add a function example(subject) to its file, see docs/add-a-watch.md"
    assert sorted(SCENES) == list(WATCHES)


@EVERY
def test_it_finds_what_it_is_there_for_and_nothing_else(name: str) -> None:
    (found,) = findings(SCENES[name]("thing"))
    assert found.watch == name
    assert "thing" in found.subject
    assert "thing" in found.headline


@EVERY
def test_what_it_finds_is_complete(name: str) -> None:
    (found,) = findings(SCENES[name]("thing"))
    assert found.severity in ("info", "warning", "critical")
    assert all((found.kind, found.headline, found.detail, found.unit, found.remedy, found.series, found.cluster_id))
    assert found.finding_id.startswith("f-")
    assert len(found.finding_id) == 18
    assert found.began_at is not None
    assert found.ended_at is not None
    assert BEGIN <= found.began_at < found.ended_at <= BEGIN + timedelta(days=60)
    assert (found.began_at.utcoffset(), found.ended_at.utcoffset()) == (timedelta(0), timedelta(0))
    assert found.day == str(found.began_at.date())
    assert found.score is not None
    assert 0 < found.score <= 1
    assert found.value == found.value


@EVERY
def test_a_single_one_is_not_written_in_the_plural(name: str) -> None:
    (found,) = findings(SCENES[name]("thing"))
    assert not re.search(r"(?<![\d.,])1 \w*s\b", f"{found.headline}; {found.detail}; {found.remedy}")


@pytest.mark.slow
@EVERY
def test_the_same_tables_get_the_same_answer(name: str) -> None:
    assert findings(SCENES[name]("thing")) == findings(SCENES[name]("thing"))


@pytest.mark.slow
@EVERY
def test_a_name_is_only_a_name(name: str) -> None:
    """Whatever a thing is called, the same is found of it, and its series is found again."""
    with lake_of(SCENES[name](HOSTILE)) as read:
        (found,) = run_watches(read)
        (plain,) = findings(SCENES[name]("thing"))
        assert HOSTILE in found.subject
        alike = {part: getattr(plain, part) for part in ("began_at", "ended_at", "score", "value", "severity", "kind")}
        assert replace(found, **alike) == found
        given = rescore(read, asdict(found))
        assert given is not None
        series, scores = given
        assert series.subject == found.series
        assert scores.is_flagged.any()
        assert len(scores.score) == len(series)


@EVERY
def test_without_tables_or_rows_it_sees_nothing(name: str) -> None:
    tables = WATCHES.get(name)().tables
    assert findings({}) == []
    assert findings({table: [] for table in tables}) == []
    for missing in tables:
        assert findings({table: rows for table, rows in SCENES[name]("thing").items() if table != missing}) == []


@pytest.mark.slow
@EVERY
def test_the_series_of_a_finding_that_is_no_more_is_nothing(name: str) -> None:
    (found,) = findings(SCENES[name]("thing"))
    with lake_of({}) as read:
        assert rescore(read, asdict(found)) is None
    with lake_of(SCENES[name]("other")) as read:
        assert rescore(read, asdict(found) | {"series": "nothing of that name"}) is None
        assert rescore(read, asdict(found) | {"watch": "no such watch"}) is None


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("rows", [1, 100])
def test_a_row_and_rows_that_say_nothing_are_survived(name: str, rows: int) -> None:
    scene = SCENES[name]("thing")
    assert findings({table: content[:1] for table, content in scene.items()}) == []
    empty = {
        table: [{column: value for column, value in row.items() if _is_key(table, column)} for row in content[:rows]]
        for table, content in scene.items()
    }
    assert findings(empty) == []
    assert findings({table: [dict.fromkeys(COLUMNS[table])] * rows for table in scene}) == []


def _is_key(table: str, column: str) -> bool:
    kind = COLUMNS[table][column].lower()
    return column.endswith(("_id", "_key", "_at", "dt")) or "timestamp" in kind


@pytest.mark.slow
@EVERY
def test_it_is_quiet_before_anything_is_wrong(name: str) -> None:
    scene = SCENES[name]("thing")
    (found,) = findings(scene)
    assert found.began_at is not None
    half = BEGIN + 0.5 * (found.began_at - BEGIN)
    assert findings({table: [row for row in rows if _time(row) <= half] for table, rows in scene.items()}) == []


def _time(row: dict[str, Any]) -> datetime:
    """When a row speaks of; what has no time is always there."""
    return max((value for value in row.values() if isinstance(value, datetime)), default=BEGIN)


def test_what_a_watch_has_seen_before_keeps_its_name_when_more_is_seen() -> None:
    tables = SCENES["gpu_memory"]("thing")
    (first,) = findings({"silver_gpu_samples": tables["silver_gpu_samples"][:-20]})
    (later,) = findings(tables)
    assert (later.finding_id, later.began_at) == (first.finding_id, first.began_at)
    assert later.ended_at is not None
    assert first.ended_at is not None
    assert later.ended_at > first.ended_at
