"""Reading a written trace back, as the published files are read: names from the header, nothing but the text."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.synth.facts import HEADERS

TEXT = {"job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "machine", "user", "gpu_type"}
TEXT |= {"gpu_type_spec", "group", "workload", "gpu_name"}
ROLES = 64


def table(directory: Path, name: str, only: list[str] | None = None) -> pa.Table:
    """One table of the trace; empty fields are null."""
    names = HEADERS[name].split(",")
    types = {column: pa.string() if column in TEXT else pa.float64() for column in names}
    read = pyarrow.csv.ReadOptions(column_names=names)
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=only, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    plain, packed = directory / f"{name}.csv", directory / f"{name}.tar.gz"
    if plain.exists():
        return pyarrow.csv.read_csv(plain, read_options=read, convert_options=convert)
    if packed.exists():
        with tarfile.open(packed) as archive:
            return pyarrow.csv.read_csv(archive.extractfile(f"{name}.csv"), read_options=read, convert_options=convert)
    raise InputError(f"no {name} in {directory}", "write a trace first: gpulake synth --out DIR")


def places(column: pa.ChunkedArray, among: pa.ChunkedArray) -> NDArray[np.int64]:
    """The position of each value in another column, -1 if it is not there."""
    known = among.combine_chunks() if isinstance(among, pa.ChunkedArray) else among
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(column, known), -1).to_numpy().astype(np.int64)
    return found


@dataclass(frozen=True)
class Readback:
    """The tables of a trace; `task` is the place of each instance's task in the task table."""

    tables: dict[str, pa.Table]
    task: NDArray[np.int64]

    def numbers(self, name: str, column: str) -> NDArray[np.float64]:
        """A column of numbers, NaN where there is none."""
        values: NDArray[np.float64] = self.tables[name][column].to_numpy().astype(float)
        return values

    def texts(self, name: str, column: str) -> NDArray[np.object_]:
        """A column of texts, None where there is none."""
        values: NDArray[np.object_] = self.tables[name][column].to_numpy()
        return values

    def places(self, column: str, name: str, among: str) -> NDArray[np.int64]:
        """The position of each value of a column in the same column of another table."""
        return places(self.tables[name][column], self.tables[among][column])


def opened(directory: Path, only: dict[str, list[str]] | None = None) -> Readback:
    """All tables, or only those columns of some of them."""
    tables = {name: table(directory, name, (only or {}).get(name)) for name in HEADERS}
    jobs, tasks = tables["pai_job_table"], tables["pai_task_table"]
    roles = pc.unique(tasks["task_name"])

    def key(rows: pa.Table) -> NDArray[np.int64]:
        role: NDArray[np.int64] = pc.fill_null(pc.index_in(rows["task_name"], roles), ROLES - 1).to_numpy()
        return places(rows["job_name"], jobs["job_name"]) * ROLES + role

    task_key = key(tasks)
    order = np.argsort(task_key)
    spot = np.searchsorted(task_key[order], key(tables["pai_instance_table"]))
    return Readback(tables, order[np.minimum(spot, len(order) - 1)])
