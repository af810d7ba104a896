"""Files that land again: whole, in pieces, in overlapping pieces, in another order, with the line ends of Windows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake, Staging
from gpulake.model import build as room
from gpulake.model.plan import shipped_plan

# How a build came about is not what it says.
HISTORY = {"build_info", "build_inputs", "table_builds"}
AT = 1_772_359_200.0  # 2026-03-01 10:00 UTC
CRLF = (b"\r\n",)
LINE_ENDS = [(b"\n",), CRLF, (b"\n", b"\r\n"), (b"\r\n", b"\n")]
Contents = dict[str, list[str]]


@dataclass(frozen=True)
class Document:
    """A file and its rows. Any of them make a file of the same kind; it keeps its name, its folder's and its time."""

    name: str
    rows: tuple[str, ...]
    before: str = ""
    between: str = "\n"
    after: str = "\n"
    is_ordered: bool = False  # the order of its rows says something
    written_at: float = AT

    def content(self, rows: Sequence[int]) -> bytes:
        return f"{self.before}{self.between.join(self.rows[row] for row in rows)}{self.after}".encode()


@dataclass(frozen=True)
class Columnar(Document):
    """A Parquet file. Its rows are those of a table."""

    table: pa.Table = None

    def content(self, rows: Sequence[int]) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(self.table.take(pa.array(rows)), sink)
        return bytes(sink.getvalue())


@dataclass(frozen=True)
class Piece:
    document: Document
    rows: tuple[int, ...]
    line_ends: tuple[bytes, ...] = (b"\n",)  # in turns

    def write(self, folder: Path) -> Path:
        path = folder / self.document.name
        path.parent.mkdir(parents=True)
        content = self.document.content(self.rows)
        if not isinstance(self.document, Columnar):
            lines = zip(content.splitlines(), cycle(self.line_ends), strict=False)
            content = b"".join(line + end for line, end in lines)
        path.write_bytes(content)
        os.utime(path, (self.document.written_at,) * 2)
        return path


def whole(document: Document) -> Piece:
    return Piece(document, tuple(range(len(document.rows))))


def again(document: Document) -> list[Piece]:
    """Two overlapping halves, the last of them with CRLF; in another order; each row alone, at most three of them."""
    rows = tuple(range(len(document.rows)))
    middle = len(rows) // 2
    backwards = rows if document.is_ordered else rows[::-1]
    halves = [Piece(document, rows[: middle + 1]), Piece(document, rows[middle:], line_ends=CRLF)]
    return [*halves, Piece(document, backwards, line_ends=CRLF), *(Piece(document, (row,)) for row in rows[:3])]


@st.composite
def landings(draw: st.DrawFn, documents: Sequence[Document]) -> list[list[Piece]]:
    """Calls of `land`, each with its pieces: every row of every document is in one of them, or in several."""
    pieces = []
    for document in documents:
        count = draw(st.integers(1, 3))
        places = [draw(st.sets(st.integers(0, count - 1), min_size=1)) for _ in document.rows]
        for number in range(count):
            rows = [row for row, found in enumerate(places) if number in found]
            if rows and not document.is_ordered:
                rows = [*draw(st.permutations(rows)), *draw(st.lists(st.sampled_from(rows), max_size=2))]
            if rows:
                pieces.append(Piece(document, tuple(rows), draw(st.sampled_from(LINE_ENDS))))
    pieces = draw(st.permutations(pieces))
    cut = draw(st.integers(0, len(pieces)))
    return [call for call in (pieces[:cut], pieces[cut:]) if call]


def landed(folder: Path, calls: Iterable[Sequence[Piece]], **settings: Any) -> Flow:
    flow = Flow(Config(lake=folder / "lake", threads=1, **settings))
    for number, call in enumerate(calls):
        flow.land([piece.write(folder / f"{number}" / f"{place:03}") for place, piece in enumerate(call)])
    return flow


def modelled(flow: Flow) -> Contents:
    """What every model says, each row as it is written: to the last bit of its fractions, sorted."""
    with modelling(flow) as staging:
        names = [name for name in staging.tables() if name not in HISTORY]
        return {
            name: sorted(repr(tuple(row.values())) for row in staging.read(f'FROM lake.main."{name}"').to_pylist())
            for name in names
        }


@contextmanager
def modelling(flow: Flow, *tables: str) -> Iterator[Staging]:
    """The tables and all that they need, or every table, built but not published: a fraction of the time of a build."""
    with flow.lake.writing(), flow.lake.stage("unpublished") as staging:
        room.write_settings(staging.connection, flow.config)
        room.build(staging, shipped_plan().select(tables), lambda *_: None)
        yield staging


def assert_alike(lake: Lake, other: Lake, digits: int) -> None:
    """The same rows in every table, though sums of fractions taken in another order differ in their last digits."""
    with duckdb.connect() as connection:
        tables = []
        for name, path in (("one", lake.builds.current()), ("two", other.builds.current())):
            connection.execute(f"ATTACH '{path}' AS {name} (READ_ONLY)")
            names = connection.execute(f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{name}'")
            tables.append({str(table) for (table,) in names.fetchall()} - HISTORY)
        assert tables[0] == tables[1]
        for table in sorted(tables[0]):
            # Only of rows that differ in a bit are the fractions compared.
            rows, expected = (
                connection.execute(f"FROM {this}.{table} EXCEPT ALL FROM {that}.{table}").to_arrow_table().to_pylist()
                for this, that in (("one", "two"), ("two", "one"))
            )
            for (words, numbers), (other_words, other_numbers) in zip(_settled(rows), _settled(expected), strict=True):
                assert words == other_words, table
                assert numbers == pytest.approx(other_numbers, rel=10.0**-digits, abs=10.0**-digits), table


def _settled(rows: list[dict[str, Any]]) -> list[tuple[tuple[str, ...], list[float | None]]]:
    """In an order of their own: what is not a fraction first, and the fractions beside it."""
    return sorted(
        (
            (
                tuple(str(value) for value in row.values() if not isinstance(value, float)),
                [value for value in row.values() if isinstance(value, float)],
            )
            for row in rows
        ),
        key=lambda pair: (pair[0], [round(value, 4) for value in pair[1] if value is not None]),
    )
