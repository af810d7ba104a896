"""Processes for queries of others. `sandbox` starts them and reads what they write.

One runs a query and ends with it: it gets its limits as an argument and the query on stdin, and writes `ready` once it
has given its rights away, then `rows` or `error`, each on a line, then JSON. Another runs none: it refuses what must
not be run, query after query, a line of JSON each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from gpulake.core.config import Config
from gpulake.core.confinement import limit_resources, restrict_system_calls
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.core.lean_imports import leave_out_pandas
from gpulake.lake.allowed import check, tables_of
from gpulake.lake.engine import connect
from gpulake.lake.reader import LakeReader
from gpulake.lake.store import Lake
from gpulake.lake.values import kind_of, plain, values

MOST_BYTES = 64 * 2**20  # of an answer
MOST_WORDS = 4_000  # of an error: the engine may repeat a value that it cannot convert
BATCH_ROWS = 500
OUTPUT = 1
JUDGE_CPU_SECONDS = 600  # of processor time, for all that it judges


def judge(given: Mapping[str, Any]) -> None:
    """Refuses most invalid queries, such as typing errors, without starting a process."""
    with connect(given["memory_limit"], 1, None) as connection:
        connection.execute("SET enable_external_access = false")
        limit_resources(given["memory_bytes"], JUDGE_CPU_SECONDS, 1)
        restrict_system_calls(OUTPUT)
        for line in sys.stdin.buffer:
            try:
                check(connection, json.loads(line), None)
                found: dict[str, Any] = {}
            except GpulakeError as error:
                found = _words(error)
            _write(json.dumps(found).encode() + b"\n")


def main(given: Mapping[str, Any]) -> None:
    leave_out_pandas()
    pa.scalar(0, pa.timestamp("us", "UTC")).as_py()
    # The process waits here, warm, for a query. What a query prints must not reach the server's log.
    query = sys.stdin.buffer.read().decode()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 2)
    if not query:
        return
    try:
        lake = Lake(Config(Path(given["lake"]), threads=given["threads"], memory_limit=given["memory_limit"]))
        with lake.open().reading(may_spill=False) as reader:
            tables = tables_of(reader.connection)
            limit_resources(given["memory_bytes"], given["seconds"], given["threads"])
            restrict_system_calls(OUTPUT)
            _write(b"ready\n")
            answer = b"".join([b"rows\n", *_answer(reader, query, tables, given["rows"])])
    except GpulakeError as error:
        answer = _too_much(given) if isinstance(error.__cause__, duckdb.OutOfMemoryException) else _refusal(error)
    except MemoryError:
        answer = _too_much(given)
    _write(answer)
    # What the engine frees at its end may need calls that it no longer has.
    os._exit(0)


def _answer(reader: LakeReader, query: str, tables: frozenset[str], rows: int) -> Iterator[bytes]:
    check(reader.connection, query, tables)
    found = reader.first(query, rows + 1)
    _check_size(found.nbytes)
    columns = [{"name": column.name, "type": kind_of(column.type)} for column in found.schema]
    size, is_cut = 0, found.num_rows > rows
    yield f'{{"columns":{_json(columns)},"is_cut":{_json(is_cut)},"rows":['.encode()
    for begin in range(0, min(rows, found.num_rows), BATCH_ROWS):
        part = found.slice(begin, min(BATCH_ROWS, rows - begin))
        cells = zip(*(values(column) for column in part.columns), strict=True)
        text = ",".join(_json([plain(value) for value in row]) for row in cells).encode()
        size += len(text)
        _check_size(size)
        yield b"," + text if begin else text
    yield b"]}"


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise UsageError(f"the answer has {size:,} bytes", "name fewer columns, or add a LIMIT")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refusal(error: GpulakeError) -> bytes:
    return b"error\n" + json.dumps(_words(error)).encode()


def _words(error: GpulakeError) -> dict[str, Any]:
    return {"error": error.message[:MOST_WORDS], "hint": error.hint, "is_usage": isinstance(error, UsageError)}


def _too_much(given: Mapping[str, Any]) -> bytes:
    hint = "narrow it, or raise sql_memory in [serve] of gpulake.toml"
    return _refusal(UsageError(f"the query needs more memory than {given['memory_bytes'] // 10**6:,} MB", hint))


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(OUTPUT, rest) :]
