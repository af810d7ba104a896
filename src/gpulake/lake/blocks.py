"""A text file with a row a line, to Parquet: read once, a block at a time, while other threads parse and write.

It takes clean files only. Whatever is unusual in one (a row that does not parse, a blank line, a control character) is
left to the readers that can say which row it is.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from gpulake.core.lines import BOM, LONGEST_LINE_BYTES
from gpulake.core.types import BadRow, CsvLayout
from gpulake.lake.fields import ABSENT, PATTERNS, is_in_range
from gpulake.lake.types import ARROW

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# One block is one row group: some 60,000 rows of a wide table.
BLOCK_BYTES = 1 << 24
BLOCKS_AHEAD = 2
SOURCE_KEY = "gpulake_source"
SAMPLED_ROWS = 10_000
ZSTD_LEVEL = 1  # ids are random hex: the first level is both faster and smaller here than the default one


@dataclass(frozen=True)
class Content:
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Copied:
    rows: int
    null_counts: dict[str, int]
    bad: list[BadRow]
    is_sound: bool = True  # every row parses, and every number is in range
    sha256: str = ""  # of the Parquet file, where it was hashed as it was written


def copy_blocks(path: Path, layout: CsvLayout, parquet: Path, source: str) -> tuple[Copied, Content]:
    """The file's rows as Parquet, which is of no use unless the copy is sound, and what the file holds in any case."""
    hashed = _Hashed()
    writes: deque[Future[None]] = deque()
    groups = _RowGroups(parquet, layout, source)
    with groups, ThreadPoolExecutor(1) as parsing, ThreadPoolExecutor(1) as writing:
        for block in _blocks(path, layout.has_header, hashed):
            if not groups.is_sound:
                continue
            writes.append(writing.submit(groups.write, parsing.submit(_parsed, block, layout)))
            if len(writes) > BLOCKS_AHEAD:
                writes.popleft().result()
        for write in writes:
            write.result()
    # Memory that the allocator keeps for later blocks would come on top of what the build takes.
    pa.default_memory_pool().release_unused()
    return Copied(groups.rows, groups.null_counts, [], groups.is_sound, groups.written.content.sha256), hashed.content


def read_content(path: Path) -> Content:
    hashed = _Hashed()
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            hashed.update(block)
    return hashed.content


class _Hashed:
    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0

    def update(self, block: bytes | memoryview) -> None:
        self._digest.update(block)
        self._size += len(block)

    @property
    def content(self) -> Content:
        return Content(self._digest.hexdigest(), self._size)


class _HashedFile(io.FileIO):
    def __init__(self, path: Path, hashed: _Hashed) -> None:
        super().__init__(path, "wb")
        self._hashed = hashed

    def write(self, part: Any) -> int:
        self._hashed.update(part)
        rest = memoryview(part)
        while rest:
            rest = rest[super().write(rest) :]
        return len(part)


class _Block(NamedTuple):
    """Whole lines: those of `text` between two places."""

    text: bytes
    begin: int
    end: int

    @property
    def lines(self) -> memoryview:
        return memoryview(self.text)[self.begin : self.end]

    @property
    def is_unusual(self) -> bool:
        """The parser ends a line at a carriage return, skips byte order marks, and reads lines of any length."""
        text, begin, end = self
        if b"\0" in text or text.startswith(BOM, begin):
            return True
        if b"\r" in text and text.count(b"\r", begin, end) != text.count(b"\r\n", begin, end):
            return True
        # A line that is longer than allowed has no end within one of these steps.
        step = LONGEST_LINE_BYTES // 2
        return any(text.find(b"\n", at, at + step) < 0 for at in range(begin, end - step, step))


def _blocks(path: Path, has_header: bool, hashed: _Hashed) -> Iterator[_Block]:
    """Without the header; the last line may have no end, and so may one that is longer than a block."""
    is_first = True
    with path.open("rb", buffering=0) as file:
        while text := file.read(BLOCK_BYTES):
            end = text.rfind(b"\n") + 1 or len(text)
            file.seek(end - len(text), os.SEEK_CUR)
            hashed.update(memoryview(text)[:end])
            begin = len(BOM) if is_first and text.startswith(BOM) else 0
            if is_first and has_header:
                begin = text.find(b"\n") + 1 or end
            is_first = False
            if begin < end:
                yield _Block(text, begin, end)


def _parsed(block: _Block, layout: CsvLayout) -> pa.Table:
    """ArrowInvalid where a row is not what its table expects."""
    # Loaded when something lands, and not by every command.
    from pyarrow import csv

    if block.is_unusual:
        raise pa.ArrowInvalid("a control character, or a very long line")
    kinds = layout.table.column_types
    rows = csv.read_csv(
        pa.BufferReader(pa.py_buffer(block.lines)),
        csv.ReadOptions(column_names=layout.file_columns, use_threads=False),
        csv.ParseOptions(delimiter=layout.delimiter, quote_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types={
                column: pa.string() if kinds[column] in PATTERNS else ARROW[kinds[column]]
                for column in layout.file_columns
            },
            null_values=[""],
            strings_can_be_null=True,
            true_values=["true"],
            false_values=["false"],
            check_utf8=not block.text.isascii(),
        ),
    )
    constants = dict(layout.constants)
    columns = [
        pa.chunked_array([pa.repeat(pa.scalar(constants.get(name), pa.string()).cast(ARROW[kind]), rows.num_rows)])
        if name not in layout.file_columns
        else _times(rows[name], kind)
        if kind in PATTERNS
        else rows[name]
        for name, kind in kinds.items()
    ]
    return pa.table(columns, schema=pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()]))


def _times(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Only times of the form that the column declares are believed."""
    from pyarrow import compute

    is_absent = compute.is_in(compute.utf8_lower(column), pa.array(ABSENT))
    column = compute.if_else(is_absent, pa.scalar(None, pa.string()), column)
    if not compute.all(compute.match_substring_regex(column, f"^(?:{PATTERNS[kind]})$")).as_py():
        raise pa.ArrowInvalid("not a time")
    return column.cast(ARROW[kind])


class _RowGroups:
    """The Parquet file, hashed as it is written. How a column is written follows from the first rows."""

    def __init__(self, parquet: Path, layout: CsvLayout, source: str) -> None:
        self.rows = 0
        self.null_counts = dict.fromkeys(layout.table.column_names, 0)
        self.is_sound = True
        self.written = _Hashed()
        self._parquet = parquet
        self._table = layout.table
        self._source = source
        self._writer: pq.ParquetWriter | None = None

    def write(self, parsed: Future[pa.Table]) -> None:
        if not self.is_sound:
            return
        try:
            block = parsed.result()
        except pa.ArrowInvalid:
            self.is_sound = False
            return
        self.is_sound = self._is_in_range(block)
        self.rows += block.num_rows
        for name in block.column_names:
            self.null_counts[name] += block[name].null_count
        self._writer = self._writer or self._opened(block)
        self._writer.write_table(block, row_group_size=block.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is None:
            return
        # What kept the rows from being written keeps the end of the file as well.
        with suppress(OSError) if error else nullcontext():
            self._writer.add_key_value_metadata({SOURCE_KEY: self._source})
            self._writer.close()
        self._file.close()

    def _is_in_range(self, block: pa.Table) -> bool:
        kinds = self._table.column_types
        numbers = (name for name in block.column_names if kinds[name] in ("number", "integer"))
        return all(self._are_within(name, _slot_ends(block[name])) or self._is_exactly(name, block) for name in numbers)

    def _is_exactly(self, name: str, block: pa.Table) -> bool:
        """Slower: a slot without a value may hold what is out of range."""
        from pyarrow import compute

        ends = compute.min_max(block[name])
        has_nan = block[name].type == pa.float64() and compute.any(compute.is_nan(block[name])).as_py()
        found = [ends[side].as_py() for side in ("min", "max") if ends[side].is_valid]
        return not has_nan and self._are_within(name, found)

    def _are_within(self, name: str, numbers: Iterable[float]) -> bool:
        return all(is_in_range(self._table, name, float(number)) for number in numbers)

    def _opened(self, block: pa.Table) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        sample = block.slice(0, SAMPLED_ROWS)
        self._file = _HashedFile(self._parquet, self.written)
        return pq.ParquetWriter(self._file, block.schema, store_schema=False, **_options(sample))


def _slot_ends(column: pa.ChunkedArray) -> Iterator[float]:
    """The least and the most of what each part has in memory, its slots without a value included; NaN wins."""
    import numpy as np

    for chunk in column.chunks:
        if len(chunk):
            slots = np.frombuffer(chunk.buffers()[1], chunk.type.to_pandas_dtype(), len(chunk), chunk.offset * 8)
            yield slots.min()
            yield slots.max()


def _distinct(column: pa.ChunkedArray) -> int:
    return len(set(column.to_numpy()) - {None})


def _options(sample: pa.Table) -> dict[str, Any]:
    """Columns of ids, which hardly repeat, share no more than a prefix; other text repeats. Statistics of ids would
    tell nothing, and numbers hardly compress."""
    texts = [field.name for field in sample.schema if field.type == pa.string()]
    ids = [name for name in texts if _distinct(sample[name]) * 2 > sample.num_rows]
    return {
        "use_dictionary": [name for name in texts if name not in ids],
        "column_encoding": dict.fromkeys(ids, "DELTA_BYTE_ARRAY"),
        "compression": {name: "zstd" if name in texts else "none" for name in sample.column_names},
        "compression_level": dict.fromkeys(texts, ZSTD_LEVEL),
        "write_statistics": False,
    }
