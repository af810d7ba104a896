"""A file of each kind that `gpulake land` reads: two good rows and a bad one. Readers declare them."""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.tables import reader_declarations
from gpulake.formats.tfevents import masked_crc


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


def event_file(*records: bytes) -> bytes:
    """Of TensorBoard: records with their checksums."""
    return b"".join(
        (size := struct.pack("<Q", len(record)))
        + struct.pack("<I", masked_crc(size))
        + record
        + struct.pack("<I", masked_crc(record))
        for record in records
    )


def scalar_event(tag: str, value: float, step: int, at_seconds: float) -> bytes:
    """A record of one scalar, step below 128."""
    said = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(said)]) + said
    return b"\x09" + struct.pack("<d", at_seconds) + b"\x10" + bytes([step]) + b"*" + bytes([len(summary)]) + summary


EVENTS = [scalar_event("loss", 2.5, 10, 1790000010.5), scalar_event("loss", 2.25, 20, 1790000020.5)]
TRAINING = [
    Example(
        "events.out.tfevents.1790000000.n7.4711.0",
        "loss\nloss\n",
        "record 3\n",
        content=event_file(*EVENTS, scalar_event("loss", 2.0, 30, 1790000030.5)[:-1] + b"?")[:-1] + b"!",
    )
]
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
EXAMPLES["training"] += TRAINING
