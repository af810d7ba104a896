"""Downloads: all rows of a question as CSV or Parquet, streamed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from fastapi import Response
from fastapi.responses import StreamingResponse

from gpulake.show.spreadsheet import harmless
from gpulake.show.web.answers import Answers, Asked


def download(answers: Answers, asked: Asked, ending: str) -> Response:
    stack = ExitStack()
    with stack:
        schema, batches = stack.enter_context(answers.stream(asked))
        first = next(iter(batches), None)
        kept = stack.pop_all()
    parts = _as_csv(schema, first, batches) if ending == "csv" else _as_parquet(schema, first, batches)

    def body() -> Iterator[bytes]:
        with kept:
            yield from parts

    kind = "text/csv; charset=utf-8" if ending == "csv" else "application/octet-stream"
    headers = {"Content-Disposition": f'attachment; filename="{asked.question.name}.{ending}"'}
    return StreamingResponse(body(), media_type=kind, headers=headers)


def _as_csv(schema: pa.Schema, first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    yield (",".join(f'"{name}"' for name in schema.names) + "\n").encode()
    options = pyarrow.csv.WriteOptions(include_header=False)
    for batch in _all(first, rest):
        buffer = io.BytesIO()
        pyarrow.csv.write_csv(harmless(batch), buffer, options)
        yield buffer.getvalue()


def _as_parquet(schema: pa.Schema, first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for batch in _all(first, rest):
            writer.write_batch(batch)
            yield sink.drain()
    yield sink.drain()


class _Sink(io.RawIOBase):
    """A file whose bytes are sent as they are written; `tell` counts all of them, as Parquet's offsets need."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def drain(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _all(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from rest
