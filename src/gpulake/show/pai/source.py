"""The PAI trace in a lake: which of its tables have rows, and the rows of a query as columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpulake.core.errors import UsageError
from gpulake.core.packaged import built_tables, queries
from gpulake.lake import LakeReader

JOBS, TASKS, INSTANCES = "pai_job_table", "pai_task_table", "pai_instance_table"
SENSORS, TAGS = "pai_sensor_table", "pai_group_tag_table"
MACHINES, METRICS = "pai_machine_spec", "pai_machine_metric"
SQL = queries("gpulake.show.pai", "study.sql")


@dataclass(frozen=True)
class Columns:
    """The rows of a query, column by column."""

    table: pa.Table

    def numbers(self, name: str) -> NDArray[np.float64]:
        """NaN where there is none."""
        values: NDArray[np.float64] = pc.cast(self.table[name], pa.float64()).to_numpy()
        return values

    def labels(self, name: str) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct texts of a column, and which of them each row has; -1: none."""
        coded = self.table[name].combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        codes: NDArray[np.int64] = pc.fill_null(coded.indices, -1).to_numpy().astype(np.int64)
        return coded.dictionary.to_pylist(), codes


@dataclass(frozen=True)
class Trace:
    reader: LakeReader

    @cached_property
    def cluster(self) -> str:
        """The cluster that the trace is of, which queries know as getvariable('cluster')."""
        self.reader.need(built_tables(SQL))
        return str(self.reader.rows(SQL["cluster"])[0]["cluster_id"])

    @property
    def is_generated(self) -> bool:
        return self.cluster == "synth"

    @cached_property
    def present(self) -> set[str]:
        """The tables of the trace that this lake has rows of."""
        present = {name for name, is_there in self.rows("present")[0].items() if is_there}
        if not present - {SENSORS}:
            raise UsageError(
                "the lake has nothing of the PAI trace",
                "land it with: gpulake refresh FOLDER; or make one like it: gpulake synth --out FOLDER",
            )
        return present

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Of a query of study.sql."""
        return self.reader.rows(SQL[query], cluster=self.cluster)

    def columns(self, query: str) -> Columns:
        return Columns(self.reader.query(SQL[query], cluster=self.cluster))
