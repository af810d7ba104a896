"""A build that is kept open for many readers, and replaced while they read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.core.errors import LakeBusyError
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.lake.builds import POINTER
from gpulake.lake.snapshots import Snapshots


def _build(snapshots: Snapshots) -> str:
    with snapshots.reading() as reader:
        return str(reader.query("SELECT build_id FROM build_info").to_pylist()[0]["build_id"])


def _open_files(folder: Path) -> set[str]:
    """Builds that this process holds open, those that are deleted already too."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except OSError:
            continue
    return {Path(name.removesuffix(" (deleted)")).name for name in found if str(folder) in name and ".duckdb" in name}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are told by /proc")
def test_a_build_that_is_replaced_serves_its_readers_to_the_end_and_then_goes(built_lake: Config) -> None:
    flow = Flow(replace(built_lake, keep_builds=1))
    snapshots = Snapshots(flow.lake)
    first = _build(snapshots)
    with snapshots.reading() as old:
        flow.build(is_forced=True)
        second = _build(snapshots)
        assert second != first
        assert not (flow.lake.builds.folder / f"{first}.duckdb").exists()
        assert old.query("SELECT build_id FROM build_info").to_pylist() == [{"build_id": first}]
        assert old.query("SELECT count(*) AS n FROM silver_jobs").to_pylist()[0]["n"] > 0
        assert _open_files(flow.lake.builds.folder) == {f"{first}.duckdb", f"{second}.duckdb"}
    assert _open_files(flow.lake.builds.folder) == {f"{second}.duckdb"}
    snapshots.close()
    assert _open_files(flow.lake.builds.folder) == set()


@pytest.mark.slow
def test_readers_of_many_threads_see_one_build_or_the_other_while_one_is_published(built_lake: Config) -> None:
    flow = Flow(replace(built_lake, keep_builds=1))
    snapshots = Snapshots(flow.lake)
    begun, is_over = threading.Barrier(5), threading.Event()

    def read() -> list[tuple[str, int]]:
        seen = []
        begun.wait()
        while not is_over.is_set():
            with snapshots.reading() as reader:
                build = reader.query("SELECT build_id FROM build_info").to_pylist()[0]["build_id"]
                count = reader.query("SELECT count(*) AS n FROM gold_ledger_daily").to_pylist()[0]["n"]
            seen.append((build, count))
        return seen

    first = _build(snapshots)
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        begun.wait()
        try:
            flow.build(is_forced=True)
            snapshots.refresh()
        finally:
            is_over.set()
    seen = {pair for reader in readers for pair in reader.result()}
    assert {build for build, _ in seen} <= {first, _build(snapshots)}
    assert (first, next(iter(seen))[1]) in seen
    assert len({count for _, count in seen}) == 1
    snapshots.close()


@pytest.mark.slow
def test_who_reads_while_another_opens_a_new_build_does_not_wait(
    built_lake: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(built_lake)
    snapshots = Snapshots(flow.lake)
    first = _build(snapshots)
    is_opening, may_open = threading.Event(), threading.Event()
    opened = Lake.open

    def slowly(lake: Lake) -> Lake:
        is_opening.set()
        assert may_open.wait(10)
        return opened(lake)

    flow.build(is_forced=True)
    monkeypatch.setattr(Lake, "open", slowly)
    with ThreadPoolExecutor(1) as pool:
        state_and_version = pool.submit(snapshots.refresh)
        assert is_opening.wait(10)
        assert _build(snapshots) == first  # and its version says so: nothing of it is kept as the new one's
        assert first in snapshots.version(["gold_ledger_daily"])
        may_open.set()
        state, everything = state_and_version.result(10)
    second = _build(snapshots)
    assert second != first
    assert second in state
    assert second in everything
    snapshots.close()


def test_a_version_changes_with_the_journals_of_its_tables_and_no_others(built_lake: Config) -> None:
    flow = Flow(built_lake)
    snapshots = Snapshots(flow.lake)
    flow.lake.append("diagnoses", [{"diagnosis_id": "a"}])
    built, journal = snapshots.version(["gold_ledger_daily"]), snapshots.version(["diagnoses"])
    flow.lake.append("diagnoses", [{"diagnosis_id": "b"}])
    assert snapshots.version(["gold_ledger_daily"]) == built
    assert snapshots.version(["diagnoses"]) != journal
    snapshots.close()


def test_a_value_that_is_not_given_is_of_every_type(lake: Lake) -> None:
    snapshots = Snapshots(lake)
    query = "SELECT starts_with('a', getvariable('x')) AS text, 1 > getvariable('x') AS number"
    with snapshots.reading() as reader:
        assert reader.query("SELECT getvariable('x') AS x", x="before").to_pylist() == [{"x": "before"}]
        assert reader.query(query, x=None).to_pylist() == [{"text": None, "number": None}]
    snapshots.close()


def test_a_disk_that_does_not_answer_is_reported_and_looked_at_again(tmp_path: Path) -> None:
    lake = Lake(Config(lake=tmp_path / "lake", threads=1)).create()
    snapshots = Snapshots(lake)
    before = snapshots.refresh()
    pointer = lake.builds.folder / POINTER
    pointer.mkdir(parents=True)  # cannot be read as what it should be
    with pytest.raises(LakeBusyError, match="looking at the lake"):
        snapshots.refresh()
    pointer.rmdir()
    assert snapshots.refresh() == before
    snapshots.close()
