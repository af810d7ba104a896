"""The same row twice is one row, in every table: how often, in what order and in what pieces it lands says nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.model.plan import shipped_plan
from gpulake.synth import TraceSummary
from repeated_traces import SOURCES
from repeating import LINE_ENDS, Contents, again, assert_alike, landed, landings, modelled, whole

CASES = 17  # of each source: 204 in all
DOCUMENTS = [document for documents in SOURCES.values() for document in documents]


@cache
def landed_once() -> Contents:
    with TemporaryDirectory() as folder:
        return modelled(landed(Path(folder), [[whole(document) for document in DOCUMENTS]]))


@pytest.mark.slow
def test_files_that_land_again_change_nothing(tmp_path: Path) -> None:
    pieces = [piece for document in DOCUMENTS for piece in again(document)]
    assert modelled(landed(tmp_path, [pieces, [whole(document) for document in DOCUMENTS]])) == landed_once()


@pytest.mark.slow
def test_line_ends_are_no_part_of_a_row(tmp_path: Path) -> None:
    found = []
    for number, line_ends in enumerate(LINE_ENDS):
        pieces = [replace(whole(document), line_ends=line_ends) for document in DOCUMENTS]
        lake = landed(tmp_path / f"{number}", [pieces]).lake
        tables = sorted({landing.table for landing in lake.live_landings()})
        with lake.open().reading() as reader:
            names = [*tables, "quarantine"]
            found.append({name: reader.query(f"FROM {name} ORDER BY ALL").to_pylist() for name in names})
    assert found[0]["quarantine"] == []
    assert found == [found[0]] * len(LINE_ENDS)


def test_every_table_that_a_model_reads_lands_again_here(tmp_path: Path) -> None:
    flow = landed(tmp_path, [[whole(document) for document in DOCUMENTS]])
    sqls = [model.sql for model in shipped_plan().models]
    read = {table for table in bronze_tables() if any(f'"{table}"' in sql for sql in sqls)}
    assert {landing.table for landing in flow.lake.live_landings()} >= read


@pytest.mark.slow
def test_dumps_that_overlap_leave_every_table_as_it_was(
    trace: tuple[Path, TraceSummary], shared_lake: Config, tmp_path: Path
) -> None:
    """Fractions of any size: their sums in another order differ in their last digits. With data tests and findings."""
    repeated = Flow(Config(lake=tmp_path / "again", threads=1))
    repeated.land([trace[0]])
    for name in ("sensor_table", "instance_table", "machine_metric"):
        lines = (trace[0] / f"pai_{name}.csv").read_bytes().splitlines()
        (tmp_path / f"pai_{name}_half.csv").write_bytes(b"\n".join(lines[: len(lines) // 2]))
        (tmp_path / f"pai_{name}_crlf.csv").write_bytes(b"\r\n".join(lines))
    repeated.land(sorted(tmp_path.glob("*.csv")))
    repeated.build()
    assert_alike(repeated.lake, Lake(shared_lake), digits=12)


@pytest.mark.slow
@settings(
    max_examples=CASES, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(data=st.data())
def test_pieces_overlaps_and_orders_give_the_same_tables(data: st.DataObject) -> None:
    drawn = [data.draw(landings(documents)) for documents in SOURCES.values()]
    calls = [[piece for call in calls for piece in call] for calls in zip_longest(*drawn, fillvalue=[])]
    with TemporaryDirectory() as folder:
        assert modelled(landed(Path(folder), calls)) == landed_once()
