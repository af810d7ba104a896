"""A file of each kind that `gpulake land` reads: two good rows and a bad one. Readers declare them."""

from __future__ import annotations

import io
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.tables import reader_declarations


class Example(NamedTuple):
    name: str
    good: str  # two rows
    bad: str  # one row
    end: str = ""  # what closes the file
    content: bytes = b""  # the file itself, where it is no text; good and bad then say what its rows read like

    @property
    def whole(self) -> bytes:
        return self.content or (self.good + self.bad + self.end).encode()


def parquet(**columns: list[object]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


OPENDC = [
    Example(
        "tasks.parquet",
        "id=1\nid=2\n",
        "submission_time=5, duration=1, cpu_count=1, cpu_capacity=1.0, mem_capacity=1\n",
        content=parquet(
            id=[1, 2, None],
            submission_time=[5, 5, 5],
            duration=[1, 1, 1],
            cpu_count=[1, 1, 1],
            cpu_capacity=[1.0, 1.0, 1.0],
            mem_capacity=[1, 1, 1],
        ),
    ),
    Example(
        "fragments.parquet",
        "id=1\nid=2\n",
        "id=2, duration=3, cpu_usage=inf\n",
        content=parquet(id=[1, 2, 2], duration=[1, 2, 3], cpu_usage=[0.0, 0.5, float("inf")]),
    ),
]
EXAMPLES = {
    reader: [
        Example(example["file"], example["good"], example["bad"], example.get("end", ""))
        for entry in declaration.values()
        for example in entry.get("examples", ())
    ]
    for reader, declaration in reader_declarations().items()
} | {"opendc": OPENDC}
