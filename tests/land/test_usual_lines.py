"""Readers that take usual lines a block at a time: they land what a reader of single lines lands, bad rows included."""

from __future__ import annotations

import base64
import gzip
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
from gpulake.core.types import BadRow, CsvLayout, JsonBlock, RowBlock, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.sacct import header_of, joined_rows
from gpulake.lake.rewritten import copy_rewritten, rewritten
from gpulake.land.readers import READERS, Sample, slurm

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
        JsonBlock(f"{row}\n".encode() * 3, 3, 0),
        BadRow(4, "no JSON object", "no JSON"),
        JsonBlock(f"{row}\n".encode(), 1, 3 * (len(row) + 1) + 8),
    ]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n", b"\nno JSON", b'\n{"ts_ms": 7, "node": "\\u0061"}\n'])
def test_lines_are_copied_only_where_a_file_has_others(tmp_path: Path, mark: bytes, last: bytes) -> None:
    path = tmp_path / "host_metrics.jsonl"
    path.write_bytes(mark + b"\n".join([good_line.encode()] * 3) + last)
    layout = layout_of("cctf", path.name, good_line)
    assert layout
    with rewritten(path, layout, tmp_path / "clean") as (found, _):
        assert (found.lines_from == path) is (not mark and last in (b"", b"\n"))
    with duckdb.connect() as connection:
        rows, bad = landed(path, layout, connection)
    assert (len(rows), len(bad)) == (3 + last.count(b"ts_ms"), last.count(b"no JSON"))


# sacct


def single_rows(path: Path, layout: CsvLayout) -> Iterator[TextRow | BadRow]:
    """All lines joined to rows, and Slurm's words worked out for each row."""
    text = path.read_bytes().decode("utf-8", "replace").removesuffix("\n")
    lines = enumerate(text.split("\n"), start=1)
    texts = ((number, line.rstrip("\r")) for number, line in lines)
    header = next((found for _, line in texts if (found := header_of(line))), None)
    assert header
    for row in joined_rows(texts, header):
        yield row if isinstance(row, BadRow) else slurm._typed(row, header, layout.file_columns)


fields = {
    "JobID": ["1", "23", "7_4", "7_[1-9%2]", "5+1", "5+1.0", "8.batch", "9.extern", "x", "", "1_", "12.a+b"],
    "JobIDRaw": ["1", "30", "31.0", "8.batch", "", "y", "4+1"],
    "State": ["COMPLETED", "CANCELLED by 1000", "CANCELLED+", "RUNNING", "CANCELLED by ", "failed", ""],
    "Submit": [
        "2024-05-01T10:00:00",
        "2024-02-29T00:00:00",
        "2023-02-29T00:00:00",
        "Unknown",
        "None",
        "",
        "N/A",
        "NaT",
    ],
    "End": ["2024-05-01T24:00:00", "2099-12-31 23:59:59.5", "1969-01-01T00:00:00", "soon", "Unknown", "nan"],
    "Elapsed": ["1-02:03:04", "00:10:00", "10:00.500", "", "INVALID", "5"],
    "ElapsedRaw": ["3600", "", "INVALID", "4294967295", "007", "-5", "1e3", " 7"],
    "NNodes": ["1", "2", "", "1000000", "1000001", "4294967294", "1.5"],
    "NCPUS": ["8", "", "None", "0"],
    "ReqMem": ["64G", "4Gn", "2000Mc", "", "0n", "?", "1.5T"],
    "ReqTRES": [
        "",
        "cpu=8,mem=64G,gres/gpu=4",
        "billing=8,gres/gpu:h100=4,gres/gpu:a100=1,mem=1T",
        "cpu",
        "gres/gpu=x",
    ],
    "AllocTRES": ["", "cpu=8,gres/gpu=4", "gres/gpu:h100=4", "gres/gpu=99999999", "gres/gpu=-1", "a=1,,b=2"],
    "TRESUsageInAve": ["", "cpu=00:00:57,gres/gpuutil=99,mem=1K", "gres/gpuutil=999999999", "xgres/gpuutil=5"],
    "NodeList": ["gpu001", "gpu[001-004,7]", "a[1-2]b[3-4],c", "None assigned", "", "gpu[", "gpu[4-1]"],
    "AdminComment": ["", "JS1:Short", "JS1:" + base64.b64encode(gzip.compress(b'{"gpus": 16}')).decode(), "hello"],
    "JobName": ["train", "a|b", "a\nb", "é", "\x1f", "\x00", "\ufffd", "a\rb", 'quo"te', "\u2028", ""],
    "AveRSS": ["", "12K", 'x"y', "é"],
    "Reserved": ["", "00:00:05", "4-00:00:00"],
}


@st.composite
def dumps(draw: st.DrawFn) -> bytes:
    names = draw(st.lists(st.sampled_from(list(fields)), min_size=1, max_size=8, unique=True))
    names = draw(st.permutations([*dict.fromkeys([*names, draw(st.sampled_from(["JobID", "JobIDRaw"])), "State"])]))
    names += draw(st.sampled_from([[], [], [], [], ["JobName"], ["Planned"]]))
    mark = draw(st.sampled_from(["|", "|", "|", ";", "@#", ",", ":"]))
    last = draw(st.sampled_from(["", mark]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    odd = st.sampled_from(["", "more of a name", "x" + mark, "1", mark * len(names)])

    def line(row: int) -> str:
        if draw(st.integers(0, 7)) == 0:
            return draw(odd)
        is_good = draw(st.booleans())
        found = [fields.get(name, fields["Reserved"]) for name in names]
        return mark.join(
            str(row) if name == "JobID" else words[0] if is_good else draw(st.sampled_from(words))
            for name, words in zip(names, found, strict=True)
        )

    rows = [line(row) + last for row in range(draw(st.integers(0, 8)))]
    text = end.join([mark.join(names) + last, *rows, *draw(st.sampled_from([[], [""]]))])
    return text.encode("utf-8").replace(b"\xc3\xa9", draw(st.sampled_from([b"\xc3\xa9", b"\xe9"])))


@given(dumps())
@example(b"JobID|State|AllocTRES|\n1|FAILED|gres/gpu=x|\n2|FAILED||\n3|FAILED|cpu=1|\nmore|\n")
@example(b"JobID|JobName|State\n1|a|FAILED\n2|b\nc|FAILED\n3|d|FAILED\n")
@example(b"JobID|State|JobName\n1|FAILED|a\nb\n2|FAILED|c\n\n3|FAILED|d")
def test_sacct_lands_as_it_does_line_by_line(tmp_path_factory: pytest.TempPathFactory, dump: bytes) -> None:
    path = tmp_path_factory.mktemp("sacct") / "sacct.txt"
    path.write_bytes(dump)
    layout = layout_of("slurm", path.name, dump.decode("utf-8", "replace"))
    assert layout
    with duckdb.connect() as connection:
        single = replace(layout, rewrite=partial(single_rows, layout=layout))
        assert landed(path, layout, connection) == landed(path, single, connection)


def test_usual_rows_of_sacct_are_read_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    row = "8.batch|CANCELLED by 7|2024-05-01T10:00:00|00:01:00|gres/gpu:h100=4|gpu[1-2]|12K\n"
    text = "JobID|State|Start|Elapsed|AllocTRES|NodeList|AveRSS\n" + row * 3
    path.write_text(text)
    layout = layout_of("slurm", path.name, text)
    assert layout
    assert layout.rewrite
    block, last = layout.rewrite(path)
    assert isinstance(block, RowBlock)
    assert isinstance(last, TextRow)
    assert block.count == 2
    said = dict(zip(layout.file_columns, last.fields, strict=True))
    assert {name: column.to_pylist() for name, column in block.columns.items()} == {
        name: [said[name]] * 2 for name in block.columns
    }
    assert not any(said[name] for name in said.keys() - block.columns.keys())
