"""The same row twice is one row, in every table: how often, in what order and in what pieces it lands says nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.model.plan import shipped_plan
from gpulake.synth import TraceSummary
from repeated_traces import SOURCES
from repeating import LINE_ENDS, Contents, Document, again, assert_alike, landed, landings, modelled, whole

CASES = 17  # of each source: 204 in all
DOCUMENTS = [(source, document) for source, documents in SOURCES.items() for document in documents]


@cache
def landed_once(source: str) -> Contents:
    with TemporaryDirectory() as folder:
        return modelled(landed(Path(folder), [[whole(document) for document in SOURCES[source]]]))


@pytest.mark.parametrize(("source", "document"), DOCUMENTS, ids=[document.name for _, document in DOCUMENTS])
def test_a_file_that_lands_again_changes_nothing(source: str, document: Document, tmp_path: Path) -> None:
    calls = [again(document), [whole(each) for each in SOURCES[source]]]
    assert modelled(landed(tmp_path, calls)) == landed_once(source)


@pytest.mark.parametrize("source", SOURCES)
def test_line_ends_are_no_part_of_a_row(source: str, tmp_path: Path) -> None:
    found = []
    for number, line_ends in enumerate(LINE_ENDS):
        pieces = [replace(whole(document), line_ends=line_ends) for document in SOURCES[source]]
        lake = landed(tmp_path / f"{number}", [pieces]).lake
        tables = sorted({landing.table for landing in lake.live_landings()})
        found.append({table: rows_of(lake, f"FROM {table} ORDER BY ALL") for table in [*tables, "quarantine"]})
    assert found[0]["quarantine"] == []
    assert found == [found[0]] * len(LINE_ENDS)


def test_every_table_that_a_model_reads_lands_again_here(tmp_path: Path) -> None:
    flow = landed(tmp_path, [[whole(document) for _, document in DOCUMENTS]])
    sqls = [model.sql for model in shipped_plan().models]
    read = {table for table in bronze_tables() if any(f'"{table}"' in sql for sql in sqls)}
    assert {landing.table for landing in flow.lake.live_landings()} >= read


def test_dumps_that_overlap_leave_every_table_as_it_was(trace: tuple[Path, TraceSummary], tmp_path: Path) -> None:
    """Fractions of any size: their sums in another order differ in their last digits. With data tests and findings."""
    once, repeated = (Flow(Config(lake=tmp_path / name, threads=1)) for name in ("once", "again"))
    for flow in (once, repeated):
        flow.land([trace[0]])
    for name in ("sensor_table", "instance_table", "machine_metric"):
        lines = (trace[0] / f"pai_{name}.csv").read_bytes().splitlines()
        (tmp_path / f"pai_{name}_half.csv").write_bytes(b"\n".join(lines[: len(lines) // 2]))
        (tmp_path / f"pai_{name}_crlf.csv").write_bytes(b"\r\n".join(lines))
    repeated.land(sorted(tmp_path.glob("*.csv")))
    for flow in (once, repeated):
        flow.build()
    assert_alike(repeated.lake, once.lake, digits=12)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@settings(
    max_examples=CASES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(data=st.data())
def test_pieces_overlaps_and_orders_give_the_same_tables(source: str, data: st.DataObject) -> None:
    calls = data.draw(landings(SOURCES[source]))
    with TemporaryDirectory() as folder:
        assert modelled(landed(Path(folder), calls)) == landed_once(source)
