"""OpenDC workloads: tasks.parquet and fragments.parquet, of every version of the format.

Version 1 has ids of text, `nature`, and fragments that say when they end; version 2 has numbers for ids; version 3 has
`deferrable` in the place of `nature`. A time is a timestamp or a bare number of milliseconds. The workload is the name
of the folder. The columns as the file has them, and how many MHz it calls a GPU, are kept beside each row, so that the
file can be written again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.errors import InputError
from gpulake.core.tables import Table, bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.core.workloads import GPU_MHZ
from gpulake.land.readers import READERS, Sample

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = "PAR1"
TABLES = {"tasks": "bronze_opendc_tasks", "fragments": "bronze_opendc_fragments"}
ROWS = 65_536
# What the lake says of a row, rather than the file.
OURS = ("workload", "file_row", "file_columns")


@READERS.register("opendc")
class OpendcReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        stem = Path(sample.name).stem
        if not sample.lines[0].startswith(MAGIC) or not sample.name.endswith(".parquet") or stem not in TABLES:
            return None
        table = bronze_tables()[TABLES[stem]]
        columns = tuple(name for name in table.column_names if name != "workload")
        workload = (("workload", sample.folder or stem),)
        return CsvLayout(table, columns, has_header=False, constants=workload, rewrite=partial(_rows, table))


def _rows(table: Table, path: Path) -> Iterator[TextRow | BadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns_of_file = [name for name in table.column_names if name not in OURS]
    try:
        file = pq.ParquetFile(path)
        kinds = {column.name: _kind(column) for column in file.schema_arrow}
        _check(table, kinds)
        words = json.dumps(kinds | _gpu_mhz(file.metadata.metadata or {}))
        row = 0
        for batch in file.iter_batches(batch_size=ROWS):
            columns = [_texts(batch, name) for name in columns_of_file]
            for fields in zip(*columns, strict=True):
                # The text of the row is for people, who count from 1.
                line = ", ".join(f"{name}={text}" for name, text in zip(columns_of_file, fields, strict=True) if text)
                yield TextRow(row + 1, (str(row), words, *fields), line)
                row += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"not a Parquet file that can be read: {error}", "write it again") from error


def _gpu_mhz(metadata: Mapping[bytes, bytes]) -> dict[str, float]:
    """What a GPU is, of a file that we wrote: others do not say."""
    try:
        mhz = float(metadata.get(GPU_MHZ.encode(), b"nan"))
    except ValueError:
        return {}
    return {GPU_MHZ: mhz} if 0 < mhz < math.inf else {}


def check_file(path: Path) -> None:
    """That it can be read, and that all of its columns have a place. The rows are another matter."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a Parquet file that can be read: {error}", "write it again") from error
    _check(bronze_tables()[TABLES[path.stem]], {column.name: _kind(column) for column in schema})


def _check(table: Table, kinds: dict[str, str]) -> None:
    """A column that has no place here would be lost silently."""
    strange = [name for name in kinds if name not in table.column_names or name in OURS]
    if strange:
        known = ", ".join(name for name in table.column_names if name not in OURS)
        raise InputError(f"unknown column {strange[0]!r}", f"the columns of OpenDC's {table.name[14:]} are: {known}")


def _kind(column: pa.Field) -> str:
    return f"{column.type}{'' if column.nullable else ' not null'}"


def _texts(batch: pa.RecordBatch, name: str) -> list[str]:
    at = batch.schema.get_field_index(name)
    if at < 0:
        return [""] * batch.num_rows
    return [_text(value) for value in _values(batch.column(at))]


def _values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
