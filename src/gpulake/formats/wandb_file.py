"""W&B's own file of a run, `run-<id>.wandb`: all that an offline run leaves. Records of LevelDB's log format, each a
Record of protocol buffers, of which the history is read. Numbers of fields are those of wandb_internal.proto.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpulake.core.types import BadRow
from gpulake.formats.protobuf import as_bytes, fields

ENDING = ".wandb"
MAGIC = b":W&B"
HEADER_BYTES, BLOCK_BYTES = 7, 1 << 15  # of the file, and of a record as well
FULL, LAST = 1, 4  # kinds of a chunk that end a record
LARGEST_RECORD_BYTES = 1 << 24
HISTORY, ENVIRONMENT = 2, 26  # of Record
ITEM, STEP = 1, 2  # of HistoryRecord
KEY, NESTED_KEY, VALUE_JSON = 1, 2, 16  # of HistoryItem
HOST, SLURM = 12, 27  # of EnvironmentRecord
ABOUT_RECORDS = 50  # the environment comes among the first


def history(path: Path) -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
    """The number and the values of each record of the history. A file that is still written may end within one."""
    for number, record in _records(path):
        if isinstance(record, str):
            yield BadRow(number, record, f"record {number}")
            continue
        try:
            for name, _, value in fields(record):
                if name == HISTORY:
                    yield number, _values(as_bytes(value))
        except (ValueError, IndexError, RecursionError):
            yield BadRow(number, "not a record of W&B", f"record {number}")


def environment(path: Path) -> tuple[dict[str, str], str]:
    """What Slurm said to the run (job_id, array_job_id, ...), and its host."""
    slurm: dict[str, str] = {}
    host = ""
    try:
        for number, record in _records(path):
            if number > ABOUT_RECORDS or isinstance(record, str):
                break
            for message in (as_bytes(value) for name, _, value in fields(record) if name == ENVIRONMENT):
                for name, _, value in fields(message):
                    if name == HOST:
                        host = as_bytes(value).decode("utf-8", "replace")
                    elif name == SLURM:
                        entry = {
                            one: as_bytes(word).decode("utf-8", "replace") for one, _, word in fields(as_bytes(value))
                        }
                        slurm[entry.get(1, "")] = entry.get(2, "")
    except (OSError, ValueError, IndexError):
        pass  # its history will say what is wrong
    return slurm, host


def _values(message: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, _, value in fields(message):
        if name == STEP:
            found.setdefault("_step", next((number for field, _, number in fields(as_bytes(value)) if field == 1), 0))
        elif name == ITEM:
            keys, said = [], b"null"
            for part, _, field in fields(as_bytes(value)):
                if part in (KEY, NESTED_KEY):
                    keys.append(as_bytes(field).decode("utf-8", "replace"))
                elif part == VALUE_JSON:
                    said = as_bytes(field)
            found[".".join(keys)] = json.loads(said)
    return found


def _records(path: Path) -> Iterator[tuple[int, bytes | str]]:
    """The bytes of a record, or what is wrong with it. A chunk does not go beyond its block."""
    number, record, is_good = 1, b"", True
    with path.open("rb") as file:
        at = HEADER_BYTES
        if not file.read(HEADER_BYTES).startswith(MAGIC):
            yield number, "not a file of W&B"
            return
        while True:
            left = BLOCK_BYTES - at % BLOCK_BYTES
            if left < HEADER_BYTES:
                file.seek(left, 1)
                at += left
            header = file.read(HEADER_BYTES)
            if not header.rstrip(b"\0"):
                return
            checksum, size, kind = struct.unpack("<IHB", header) if len(header) == HEADER_BYTES else (0, 1, 0)
            chunk = file.read(size) if kind else b""
            if len(chunk) < size:
                yield number, "the file ends within a record"
                return
            at += HEADER_BYTES + size
            is_good = is_good and zlib.crc32(chunk, zlib.crc32(header[-1:])) == checksum
            if len(record) <= LARGEST_RECORD_BYTES:
                record += chunk
            if kind in (FULL, LAST):
                if len(record) <= LARGEST_RECORD_BYTES:
                    yield number, record if is_good else "the checksum of the record is wrong"
                number, record, is_good = number + 1, b"", True
