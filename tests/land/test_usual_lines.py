"""Readers that take usual lines a block at a time: they land what a reader of single lines lands, bad rows included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpulake.core.tables import Table
from gpulake.core.types import BadRow, CsvLayout, JsonBlock, TextRow
from gpulake.formats.json_text import word
from gpulake.lake.rewritten import copy_rewritten, rewritten
from gpulake.land.readers import READERS, Sample

Landed = tuple[list[str], list[BadRow]]


def landed(path: Path, layout: CsvLayout, connection: duckdb.DuckDBPyConnection) -> Landed:
    """Rows in some order, and bad rows in that of their lines."""
    parquet = path.with_suffix(".parquet")
    with rewritten(path, layout, path.with_name("clean")) as (found, bad):
        rows = copy_rewritten(connection, found, parquet, "a source").rows
        assert rows == found.rows
    table = pq.read_table(parquet).to_pylist() if rows else []
    return sorted(map(repr, table)), sorted(bad, key=lambda row: row.line_number)


def layout_of(reader: str, name: str, text: str) -> CsvLayout | None:
    lines = tuple(line for line in text.splitlines()[:20] if line)
    return READERS.get(reader)().recognise(Sample(name, lines, folder="n7")) if lines else None


# JSON lines of a collected run


def single_objects(path: Path, table: Table) -> Iterator[TextRow | BadRow]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            yield BadRow(number, "no JSON object", text)
            continue
        if not row.get("node"):
            row["node"] = row.get("node_id") or "n7"
        fields = [row.get(name) for name in table.column_names]
        is_plain = "\\" not in text
        yield TextRow(number, tuple(f if isinstance(f, str) and is_plain else word(f) for f in fields), text)


numbers: st.SearchStrategy[Any] = (
    st.integers(-(2**65), 2**65)
    | st.floats()
    | st.sampled_from([0, -0.0, 1e-5, 0.5, -0.5, 4_102_444_800_000, 4_102_444_800_001, 10**15, 10**15 + 1, 2**63 - 1])
    | st.integers(0, 10**6)
)
texts = st.text(max_size=8) | st.sampled_from(
    ["", "node-1", "[1,2]", "{a", "naïve", "\x7f", "\u200b", "\ufffd", "\\", "\r"]
)
documents = st.lists(numbers, max_size=3) | st.dictionaries(
    st.sampled_from(["sda", "a,b", "é"]), st.lists(numbers), max_size=2
)
anything = st.none() | st.booleans() | numbers | texts | documents
members = {
    "ts_ms": st.integers(0, 2 * 10**12) | anything,
    "node": st.sampled_from(["node-1", "node-2"]) | anything,
    "cpu_util": st.floats(0, 100).map(lambda value: round(value, 2)) | anything,
    "core_busy_ratios": st.lists(st.floats(0, 1).map(lambda value: round(value, 4)), max_size=3) | anything,
    "host_id": texts | anything,
    "processes_running": st.integers(0, 100) | anything,
    "more": anything,
    "node_id": st.sampled_from(["node-3", ""]),
}


@st.composite
def json_line(draw: st.DrawFn) -> str:
    keys = draw(st.sampled_from([["ts_ms", "node", "cpu_util"], ["ts_ms", "cpu_util"], list(members), []]))
    keys = keys or draw(st.lists(st.sampled_from(list(members)), max_size=8))
    pairs = [f"{json.dumps(key)}:{draw(SPACE)}{written(draw, draw(members[key]))}" for key in keys]
    return f"{{{f',{draw(SPACE)}'.join(pairs)}}}"


SPACE = st.sampled_from([" ", "", " ", "  "])


def written(draw: st.DrawFn, value: Any) -> str:
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


odd_lines = st.sampled_from(
    ["", " ", "{", "[]", "5", '{"ts_ms": 1,}', '{"ts_ms": 007, "node": "a"}', '{"ts_ms": 1} {}']
)
good_line = '{"ts_ms": 5, "node": "a", "cpu_util": 1.5}'
json_texts = st.lists(json_line() | odd_lines | st.text(max_size=20) | st.just(good_line), min_size=1, max_size=12)


@given(json_texts, st.sampled_from(["\n", "\r\n"]), st.booleans())
@example(['{"ts_ms": 5, "node": "a", "core_busy_ratios": [0.5, 0.25, 0.0001], "disks": {"sda": [1, 2.5]}}'], "\n", True)
@example(['{"ts_ms": 5, "node": "a", "stage": 7, "cpu_util": 1e-07, "load_1m": -0.0}', good_line], "\n", False)
@example(['{"ts_ms": 5, "cpu_util": 1}', '{"ts_ms": 6, "node": "", "cpu_util": 1}', '{"ts_ms": 7}'], "\n", True)
def test_json_lines_land_as_they_do_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, is_cut: bool
) -> None:
    path = tmp_path_factory.mktemp("run") / "host_metrics.jsonl"
    text = end.join(lines) + ("" if is_cut else end)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    layout = layout_of("cctf", path.name, path.read_bytes().decode("utf-8", "replace"))
    if layout is None:
        return
    with duckdb.connect() as connection:
        single = replace(layout, rewrite=partial(single_objects, table=layout.table))
        assert landed(path, layout, connection) == landed(path, single, connection)


def test_usual_json_lines_are_not_parsed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "host_metrics.jsonl"
    row = '{"ts_ms":5,"node":"a","stage":null,"cpu_util":0.25,"core_busy_ratios":[0.5,1.0],"disks":{"sda":[1,2]}}'
    path.write_text(f"{row}\n" * 3 + "no JSON\n" + f"{row}\n")
    layout = layout_of("cctf", path.name, path.read_text())
    assert layout
    assert layout.rewrite
    found = list(layout.rewrite(path))
    assert found == [
        JsonBlock(f"{row}\n".encode() * 3, 3),
        BadRow(4, "no JSON object", "no JSON"),
        JsonBlock(f"{row}\n".encode(), 1),
    ]
