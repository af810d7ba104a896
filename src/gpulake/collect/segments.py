"""Segments: append-only files of blocks, one block a tick. A block is acknowledged once it is synced to the disk.

A line is a block: its checksum, a space, JSON. The first line of each segment is its header, which names the columns of
the rows, so that a segment can be read without the code that wrote it. Files are named by session and number, both
counted, so that their order needs no clock.

What is acknowledged is never deleted. When there is no room, by the cap or on the disk, new blocks are dropped and
counted.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEGMENT_BYTES = 16 << 20
CAP_BYTES = 1 << 30
FORMAT = "gpulake-segment"
VERSION = 1


@dataclass(frozen=True)
class Block:
    """What one tick left. Positions say how far resumable sources had come before it and with it."""

    tick: int
    now_ms: int  # what the wall clock showed
    elapsed_ms: int  # since boot
    rows: Mapping[str, list[list[Any]]]  # by kind
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Damage:
    file: str
    line_number: int
    reason: str
    is_torn_tail: bool  # the end of a file that was being written when its writer died: never acknowledged


@dataclass(frozen=True)
class Segment:
    header: Mapping[str, Any]
    blocks: tuple[Block, ...]
    damage: tuple[Damage, ...]


class NoRoomError(Exception):
    """The block was dropped: the cap is reached, or the disk is full or failing."""


class SegmentWriter:
    """Writes one session. Nothing is written where an older session wrote."""

    def __init__(
        self,
        folder: Path,
        header: Mapping[str, Any],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        cap_bytes: int = CAP_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._header = dict(header)
        self._segment_bytes = segment_bytes
        self._cap_bytes = cap_bytes
        self._session = 1 + max((int(path.name[:6]) for path in _files(folder)), default=0)
        self._number = 0
        self._file = -1
        self._size = 0  # of the open file
        self._used_bytes = sum(path.stat().st_size for path in _files(folder))
        self._written_tick = 0
        self.written_bytes = 0
        self.acknowledged_tick = 0

    def append(self, block: Block) -> None:
        """Writes the block whole, or not at all and raises NoRoomError. It is acknowledged by the next sync."""
        line = _line(
            {
                "tick": block.tick,
                "now_ms": block.now_ms,
                "elapsed_ms": block.elapsed_ms,
                "rows": block.rows,
                "before": block.before,
                "after": block.after,
            }
        )
        try:
            if self._file < 0 or self._size + len(line) > self._segment_bytes:
                self._next_file()
            self._write(line)
        except OSError as error:
            self._close()
            raise NoRoomError(error.strerror or str(error)) from error
        self._written_tick = block.tick

    def sync(self) -> None:
        """Acknowledges what was written, or raises NoRoomError: then nothing since the last sync is acknowledged."""
        if self._file < 0 or self.acknowledged_tick == self._written_tick:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._close()
            raise NoRoomError(error.strerror or str(error)) from error
        self.acknowledged_tick = self._written_tick

    def close(self) -> None:
        if self._file >= 0:
            self.sync()
            self._close()

    def _write(self, line: bytes) -> None:
        if self._used_bytes + len(line) > self._cap_bytes:
            raise OSError(0, f"the cap of {self._cap_bytes} bytes is reached")
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # Half a line must not stand before a whole one.
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self._used_bytes += len(line)
        self.written_bytes += len(line)

    def _next_file(self) -> None:
        if self._file >= 0:
            os.fdatasync(self._file)
            self.acknowledged_tick = self._written_tick
            self._close()
        number = self._number + 1
        path = self._folder / f"{self._session:06d}-{number:06d}.seg"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = 0
        self._number = number
        header = {"format": FORMAT, "version": VERSION, "session": self._session, "segment": number} | self._header
        self._write(_line(header))
        _sync_folder(self._folder)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def read_segments(folder: Path) -> Iterator[Segment]:
    """Every segment in the order in which they were written. What is damaged is told, and the rest is read."""
    for path in _files(folder):
        yield _read(path)


def last_positions(folder: Path) -> dict[str, int]:
    """How far the resumable sources had come with the newest whole block."""
    for path in reversed(_files(folder)):
        if blocks := _read(path).blocks:
            return dict(blocks[-1].after)
    return {}


def _read(path: Path) -> Segment:
    header: Mapping[str, Any] = {}
    blocks: list[Block] = []
    damage: list[Damage] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            found = _parsed(line)
            if isinstance(found, str):
                damage.append(Damage(path.name, number, found, is_torn_tail=not line.endswith(b"\n")))
            elif found.get("format") == FORMAT:
                header = found
            else:
                blocks.append(Block(**found))
    return Segment(header, tuple(blocks), tuple(damage))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*-[0-9]*.seg"))


def _line(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The content of a line, or what is wrong with it."""
    if not line.endswith(b"\n"):
        return "it ends before its end"
    checksum, _, text = line[:-1].partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return "its checksum does not match"
    content: dict[str, Any] = json.loads(text)
    return content


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
