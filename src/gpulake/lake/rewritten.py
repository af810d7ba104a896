"""Formats that are not one row a line: what their reader makes of them, in two files that the engine reads at once.

Rows that a reader has checked come in blocks, as columns of text or as JSON lines; all others are checked here, one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa

from gpulake.core.types import BadRow, CsvLayout, JsonBlock, RowBlock, TextRow
from gpulake.lake.blocks import Copied
from gpulake.lake.engine import Connection, text
from gpulake.lake.fields import UNIT, checker, read_type, selected_json, selected_text
from gpulake.lake.sanitise import BadRows, bad_row, structure_fault
from gpulake.lake.textfile import copy_query

REPLACED = "\N{REPLACEMENT CHARACTER}".encode()
MOST_PENDING_BYTES = 1 << 22
COPIED_BYTES = 1 << 20
GLOB = set("*?[{")  # in a name: the engine might read other files, too
VIEW = "rewritten_rows"


@dataclass
class Rewritten:
    """The rows of one file: `columns` is a stream of Arrow, `lines` are JSON."""

    layout: CsvLayout
    columns: Path
    lines: Path
    column_rows: int = 0
    line_rows: int = 0
    lines_from: Path | None = None  # the file itself, where it is nothing but such lines

    @property
    def rows(self) -> int:
        return self.column_rows + self.line_rows


@contextmanager
def rewritten(path: Path, layout: CsvLayout, stem: Path) -> Iterator[tuple[Rewritten, list[BadRow]]]:
    """The rows of a file and its bad rows. The files are named after `stem`, and removed at the end."""
    found = Rewritten(layout, stem.with_suffix(".arrow"), stem.with_suffix(".jsonl"))
    try:
        yield found, _gather(path, found)
    finally:
        found.columns.unlink(missing_ok=True)
        found.lines.unlink(missing_ok=True)


def copy_rewritten(connection: Connection, found: Rewritten, parquet: Path, source: str) -> Copied:
    layout = found.layout
    parts = []
    with ExitStack() as stack:
        if found.column_rows:
            stream = stack.enter_context(pa.OSFile(str(found.columns)))
            connection.register(VIEW, stack.enter_context(pa.ipc.open_stream(stream)))
            stack.callback(connection.unregister, VIEW)
            chosen = ", ".join(selected_text(column, layout) for column in layout.table.column_names)
            parts.append(f"SELECT {chosen} FROM {VIEW}")
        if found.line_rows:
            chosen = ", ".join(selected_json(column, layout) for column in layout.table.column_names)
            kinds = layout.table.column_types
            members = ", ".join(f"{text(column)}: {text(read_type(kinds[column]))}" for column in layout.file_columns)
            file = text(str(found.lines_from or found.lines))
            parts.append(
                f"SELECT {chosen} FROM read_json({file}, format = 'newline_delimited', columns = {{{members}}},"
                " compression = 'uncompressed')"
            )
        if not parts:
            return Copied(0, {}, [])
        return copy_query(connection, " UNION ALL ".join(parts), layout.table, parquet, source)


def _gather(path: Path, found: Rewritten) -> list[BadRow]:
    assert found.layout.rewrite
    fault = _checked(found.layout)
    bad = BadRows()
    with _Lines(path, found) as lines, _Columns(found) as columns:
        for row in found.layout.rewrite(path):
            if isinstance(row, RowBlock):
                columns.add_block(row)
            elif isinstance(row, JsonBlock):
                lines.add(row)
            elif isinstance(row, BadRow):
                bad.add(bad_row(row.line_number, row.reason, row.text))
            elif reason := fault(row):
                bad.add(bad_row(row.line_number, reason, row.text))
            else:
                columns.add_row(row)
    return bad.rows


def _checked(layout: CsvLayout) -> Callable[[TextRow], str]:
    """What is wrong with a row; empty if nothing is."""
    fault = checker(layout, is_strict=True)
    width = len(layout.file_columns)

    def reason(row: TextRow) -> str:
        # Half a character, as JSON may escape it, has no encoding.
        line = UNIT.join(row.fields).encode("utf-8", "surrogatepass")
        if found := structure_fault(line, UNIT.encode(), width):
            return found
        if b"\n" in line:
            return "control character in the row"
        return "not UTF-8" if REPLACED in line else fault(row.fields)

    return reason


class _Lines:
    """Writes JSON lines. Those of a file that has nothing else are not copied: the engine reads the file itself."""

    def __init__(self, path: Path, found: Rewritten) -> None:
        self._path = path
        self._found = found
        self._begin: int | None = None  # of the file's lines that were not copied
        self._end = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        is_whole = self._begin == 0 and self._end >= self._path.stat().st_size
        if error is None and is_whole and GLOB.isdisjoint(str(self._path)):
            self._found.lines_from = self._path
        elif error is None:
            self._copy()
        if self._file:
            self._file.close()

    def add(self, block: JsonBlock) -> None:
        self._found.line_rows += block.count
        if self._file is None and self._begin is None and block.offset is not None:
            self._begin = self._end = block.offset
        if self._file is None and block.offset == self._end and self._begin is not None:
            self._end += len(block.lines)
            return
        self._copy()
        assert self._file
        self._file.write(block.lines)

    def _copy(self) -> None:
        """The lines that were left in the file so far; each ends with a line feed, the file's last one, too."""
        if self._file:
            return
        self._file = self._found.lines.open("wb")
        with self._path.open("rb") as source:
            at = source.seek(self._begin or 0)
            while at < self._end and (chunk := source.read(min(COPIED_BYTES, self._end - at))):
                self._file.write(chunk)
                at += len(chunk)
        if at < self._end:
            self._file.write(b"\n")


class _Columns:
    """Writes rows as a stream of Arrow; single rows wait until they are enough for a batch."""

    def __init__(self, found: Rewritten) -> None:
        self._found = found
        self._schema = pa.schema([(column, pa.string()) for column in found.layout.file_columns])
        self._rows: list[tuple[str, ...]] = []
        self._pending_bytes = 0

    def __enter__(self) -> _Columns:
        self._file = pa.OSFile(str(self._found.columns), "wb")
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._flush()
        self._stream.close()
        self._file.close()

    def add_row(self, row: TextRow) -> None:
        self._rows.append(row.fields)
        self._pending_bytes += len(row.text) + len(row.fields)
        if self._pending_bytes > MOST_PENDING_BYTES:
            self._flush()

    def add_block(self, block: RowBlock) -> None:
        empty = pa.nulls(block.count, pa.string())
        arrays = [block.columns.get(name, empty) for name in self._schema.names]
        self._write(pa.record_batch(arrays, schema=self._schema))

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            self._write(pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=self._schema))
        self._rows, self._pending_bytes = [], 0

    def _write(self, batch: pa.RecordBatch) -> None:
        self._stream.write_batch(batch)
        self._found.column_rows += batch.num_rows
