"""TensorBoard's event files: records of TFRecord, each an Event of protocol buffers, of which the scalars are read.

TensorBoard itself needs gRPC, protobuf and Pillow for this; the few fields that matter are read here. Their numbers are
those of tensorboard/compat/proto: event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpulake.core.types import BadRow
from gpulake.formats.protobuf import FLOAT, VARINT, as_bytes, fields

EVENT_FILE = re.compile(r"events\.out\.tfevents\.\d+\.(?P<node>.+?)(?:\.\d+)*(?:\.v2)?")
LARGEST_EVENT_BYTES = 1 << 16  # a larger one holds a graph, an image or a histogram
HEADER_BYTES, CRC_BYTES = 12, 4
CASTAGNOLI = 0x82F63B78
WALL_TIME, STEP, SUMMARY = 1, 2, 5  # of Event
VALUE = 1  # of Summary
TAG, SIMPLE_VALUE, TENSOR = 1, 2, 8  # of Summary.Value
TENSOR_TYPE, TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES = 1, 4, 5, 6  # of TensorProto
UNPACKED = {1: "<f", 2: "<d"}  # by its type of tensor


class Scalar(NamedTuple):
    record: int
    tag: str
    value: float
    step: int
    at_seconds: float


def scalars(path: Path) -> Iterator[Scalar | BadRow]:
    """A file that is still written may end within a record."""
    with path.open("rb") as file:
        for number, record in enumerate(_records(file), start=1):
            if isinstance(record, str):
                yield BadRow(number, record, f"record {number}")
                continue
            try:
                yield from _scalars(number, record)
            except (ValueError, IndexError, struct.error):
                yield BadRow(number, "not an event", f"record {number}")


def _records(file: BinaryIO) -> Iterator[bytes | str]:
    """The bytes of a record, or what is wrong with it."""
    while header := file.read(HEADER_BYTES):
        if len(header) < HEADER_BYTES:
            yield "the file ends within a record"
            return
        size, checksum = struct.unpack("<QI", header)
        if masked_crc(header[:8]) != checksum:
            # Where the next record begins is not known.
            yield f"the size of a record at byte {file.tell() - HEADER_BYTES} is damaged; the rest was not read"
            return
        if size > LARGEST_EVENT_BYTES:
            file.seek(size + CRC_BYTES, 1)
            continue
        record = file.read(size + CRC_BYTES)
        if len(record) < size + CRC_BYTES:
            yield "the file ends within a record"
            return
        is_whole = struct.unpack("<I", record[size:])[0] == masked_crc(record[:size])
        yield record[:size] if is_whole else "the checksum of the record is wrong"


def _scalars(number: int, record: bytes) -> Iterator[Scalar]:
    found = list(fields(record))
    at = next((struct.unpack("<d", as_bytes(value))[0] for name, _, value in found if name == WALL_TIME), 0.0)
    step = next((value for name, kind, value in found if name == STEP and kind == VARINT), 0)
    assert isinstance(step, int)
    step -= 1 << 64 if step >= 1 << 63 else 0
    for name, _, summary in found:
        if name == SUMMARY:
            for part, _, value in fields(as_bytes(summary)):
                if part == VALUE and (scalar := _value(as_bytes(value))):
                    yield Scalar(number, *scalar, step, at)


def _value(message: bytes) -> tuple[str, float] | None:
    tag, value = "", None
    for name, kind, field in fields(message):
        if name == TAG:
            tag = as_bytes(field).decode("utf-8", "replace")
        elif name == SIMPLE_VALUE and kind == FLOAT:
            value = struct.unpack("<f", as_bytes(field))[0]
        elif name == TENSOR:
            value = _tensor(as_bytes(field))
    return (tag, value) if value is not None else None


def _tensor(message: bytes) -> float | None:
    """Of a tensor of one number, that."""
    kind = 0
    for name, _, field in fields(message):
        if name == TENSOR_TYPE and isinstance(field, int):
            kind = field
        elif name in (TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES):
            form = {TENSOR_FLOATS: "<f", TENSOR_DOUBLES: "<d"}.get(name, UNPACKED.get(kind, ""))
            packed = as_bytes(field)
            if form and len(packed) == struct.calcsize(form):
                return float(struct.unpack(form, packed)[0])
    return None


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def masked_crc(data: bytes) -> int:
    """CRC-32C, masked as TFRecord does it."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
