"""Segments: append-only files of blocks, one block a tick. A block is acknowledged once it is synced to the disk.

A line is a block: its checksum, a space, JSON, a tab, JSON of its rows. An empty line stands before it, so that half a
line or a newline gone bad costs one block, not two. The first line of each segment is its header, which names the
columns of the rows, so that a segment can be read without the code that wrote it; it stands there twice, as nothing
else in the file can be read without it. Files are named by session and number, both counted, so that their order needs
no clock.

What is acknowledged is never deleted. When there is no room, by the cap or on the disk, new blocks are dropped, and who
writes is told which.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpulake.collect.segment_lines import head_of, line_of, whole_of
from gpulake.core.disk import make_folder, sync
from gpulake.core.lines import byte_lines
from gpulake.core.types import BadRow

SEGMENT_BYTES = 16 << 20
LONGEST_BYTES = 64 << 20  # of a tick
CAP_BYTES = 1 << 30
FORMAT = "gpulake-segment"
VERSION = 1
NAME = re.compile(r"(\d{6,})-(\d{6,})\.seg")


@dataclass(frozen=True)
class Block:
    """What one tick left. Positions say how far resumable sources had come before it and with it; parts, which rows are
    theirs: by source and kind, the first and how many."""

    tick: int
    now_ms: int  # what the wall clock showed
    elapsed_ms: int  # since boot
    rows: Mapping[str, Sequence[Sequence[Any]]]  # by kind
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    unread: Sequence[str] = ()  # sources that tell what changed, and could not be read: their silence says nothing


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
    """Blocks are lost, from this tick on: the cap is reached, or the disk is full or failing."""

    def __init__(self, reason: str, lost_from: int) -> None:
        super().__init__(reason)
        self.lost_from = lost_from


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
        make_folder(folder)
        self._folder = folder
        self._header = dict(header)
        self._segment_bytes = segment_bytes
        self.cap_bytes = cap_bytes
        files = _files(folder)
        self._session = 1 + max((session for session, _, _ in files), default=0)
        self._number = 0
        self._path = folder
        self._file = -1
        self._size = 0  # of the open file
        self._synced_size = 0
        self._has_blocks = False
        self._unsynced: list[int] = []  # ticks
        self.used_bytes = _size_of(files)
        if files:
            # Sources go on from its last block, which may have been written and not synced.
            sync(files[-1][2])
        self.written_bytes = 0
        self.acknowledged_tick = 0

    @property
    def segment(self) -> str:
        """The file that is written now, or was last."""
        return self._path.name if self._number else ""

    def append(self, block: Block) -> None:
        """Writes the block whole, or not at all and raises NoRoomError. It is acknowledged by the next sync."""
        head = {
            "tick": block.tick,
            "now_ms": block.now_ms,
            "elapsed_ms": block.elapsed_ms,
            "before": block.before,
            "after": block.after,
            "parts": block.parts,
        } | ({"unread": block.unread} if block.unread else {})
        line = line_of(head, block.rows)
        try:
            if self._has_blocks and self._size + len(line) > self._segment_bytes:
                self.close()
            if self._file < 0:
                self._open(len(line))
            self._write(b"\n" + line)
        except OSError as error:
            raise NoRoomError(error.strerror or str(error), block.tick) from error
        self._has_blocks = True
        self._unsynced.append(block.tick)

    def sync(self) -> None:
        """Acknowledges what was written, or raises NoRoomError: then nothing since the last sync is acknowledged."""
        if not self._unsynced:
            return
        try:
            os.fdatasync(self._file)
            if not os.fstat(self._file).st_nlink:
                raise OSError(0, "the segment was deleted")
        except OSError as error:
            # The kernel may have forgotten what it could not write, and say yes when asked again: begin a new file.
            lost_from = self._unsynced[0]
            self._abandon()
            raise NoRoomError(error.strerror or str(error), lost_from) from error
        self.acknowledged_tick = self._unsynced[-1]
        self._synced_size = self._size
        self._unsynced.clear()

    def close(self) -> None:
        self.sync()
        self._close()

    def _open(self, first_line_bytes: int) -> None:
        number = self._number + 1
        header = line_of(
            {"format": FORMAT, "version": VERSION, "session": self._session, "segment": number} | self._header
        )
        # No file for a header alone: with no room there would be one a tick.
        self._check_cap(2 * len(header) + first_line_bytes + 2)
        make_folder(self._folder)
        self._path = self._folder / f"{self._session:06d}-{number:06d}.seg"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._number = number
        try:
            self._write(header + b"\n" + header)
            sync(self._folder)
        except OSError:
            self._abandon()
            raise

    def _write(self, line: bytes) -> None:
        self._check_cap(len(line))
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self.used_bytes += len(line)
        self.written_bytes += len(line)

    def _check_cap(self, wanted_bytes: int) -> None:
        if self.used_bytes + wanted_bytes <= self.cap_bytes:
            return
        self.used_bytes = _size_of(_files(self._folder))  # somebody may have made room
        if self.used_bytes + wanted_bytes > self.cap_bytes:
            raise OSError(0, f"the cap of {self.cap_bytes} bytes is reached")

    def _abandon(self) -> None:
        """Leaves the file with what was acknowledged in it; without any, leaves no file."""
        try:
            if self._synced_size:
                os.ftruncate(self._file, self._synced_size)
            else:
                self._path.unlink()
        except OSError:
            pass  # what stays there was never acknowledged: readers go by the positions
        self.used_bytes -= self._size - self._synced_size
        self._unsynced.clear()
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, -1
        self._size = self._synced_size = 0
        self._has_blocks = False
        if file >= 0:
            os.close(file)


def read_segments(folder: Path) -> Iterator[Segment]:
    """Every segment in the order in which they were written. What is damaged is told, and the rest is read."""
    for _, _, path in _files(folder):
        header: Mapping[str, Any] = {}
        blocks: list[Block] = []
        damage: list[Damage] = []
        for found in _contents(path, whole_of):
            if isinstance(found, Damage):
                damage.append(found)
            elif "format" in found:
                header = found
            else:
                blocks.append(_block(found))
        yield Segment(header, tuple(blocks), tuple(damage))


def read_blocks_once(
    folder: Path, *, tell: Callable[[Damage], None] = lambda _: None
) -> Iterator[tuple[Mapping[str, Any], Block]]:
    """Every block with its header, in order, and no row of a resumable source twice.

    A source that went back, because a block could not be acknowledged, left the same rows again in a later block: the
    rows of the earlier one are cut. Positions are of one boot.
    """
    headers, cut = _headers_and_cuts(folder)
    for session, number, path in _files(folder):
        for found in _contents(path, whole_of):
            if isinstance(found, Damage):
                tell(found)
            elif "format" in found:
                continue
            elif session not in headers:
                tell(Damage(path.name, 0, f"tick {found['tick']} belongs to no header", is_torn_tail=False))
            else:
                block = _block(found)
                for source in cut.get((session, number, block.tick), ()):
                    block = _without(block, source)
                yield headers[session], block


def read_moments(folder: Path) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """Of every block its header, what the wall clock showed and the time since boot, without the cost of its rows."""
    headers: dict[int, Mapping[str, Any]] = {}
    for session, _, path in _files(folder):
        for head in _contents(path, head_of):
            if isinstance(head, Damage):
                continue
            if "format" in head:
                headers[session] = head
            elif session in headers:
                yield headers[session], head["now_ms"], head["elapsed_ms"]


def last_positions(folder: Path, boot_id: str) -> dict[str, int]:
    """How far the resumable sources had come in this boot with the newest whole block."""
    headers: dict[int, Mapping[str, Any]] = {}
    for session, _, path in reversed(_files(folder)):
        last: Mapping[str, Any] = {}
        for found in _contents(path, head_of):
            if not isinstance(found, Damage):
                if "format" in found:
                    headers[session] = found
                else:
                    last = found
        if last:
            return dict(last["after"]) if headers.get(session, {}).get("boot_id") == boot_id else {}
    return {}


def _headers_and_cuts(folder: Path) -> tuple[dict[int, Mapping[str, Any]], dict[tuple[int, int, int], list[str]]]:
    """The header of each session, and which rows later blocks have again: by session, file and tick, the sources."""
    headers: dict[int, Mapping[str, Any]] = {}
    kept: dict[tuple[str, str], list[tuple[int, tuple[int, int, int]]]] = {}
    cut: dict[tuple[int, int, int], list[str]] = {}
    for session, number, path in _files(folder):
        for head in _contents(path, head_of):
            if isinstance(head, Damage):
                continue
            if "format" in head:
                headers[session] = head
                continue
            boot_id = str(headers.get(session, {}).get("boot_id"))
            for source, before in head["before"].items():
                if head["after"].get(source, before) == before:
                    continue
                earlier = kept.setdefault((boot_id, source), [])
                while earlier and earlier[-1][0] >= before:
                    cut.setdefault(earlier.pop()[1], []).append(source)
                earlier.append((before, (session, number, head["tick"])))
    return headers, cut


def _without(block: Block, source: str) -> Block:
    """The block with the rows of the source left out; those of others keep their order."""
    rows = dict(block.rows)
    parts = dict(block.parts)
    for kind, (first, count) in parts.pop(source, {}).items():
        own = rows.get(kind, ())
        rows[kind] = [*own[:first], *own[first + count :]]
        for other, spans in parts.items():
            if kind in spans and spans[kind][0] > first:
                parts[other] = {**spans, kind: [spans[kind][0] - count, spans[kind][1]]}
    return replace(block, rows=rows, parts=parts)


def _contents(path: Path, parsed: Callable[[bytes], dict[str, Any] | str]) -> Iterator[dict[str, Any] | Damage]:
    for number, line in byte_lines(path, LONGEST_BYTES):
        if line == b"\n":
            continue
        found = line.reason if isinstance(line, BadRow) else parsed(line)
        if isinstance(found, str):
            is_ended = isinstance(line, BadRow) or line.endswith(b"\n")
            yield Damage(path.name, number, found, is_torn_tail=not is_ended)
        elif found.get("format", FORMAT) != FORMAT or found.get("version", VERSION) != VERSION:
            yield Damage(path.name, number, "it is of a newer gpulake", is_torn_tail=False)
            return
        else:
            yield found


def _block(content: Mapping[str, Any]) -> Block:
    return Block(
        tick=content["tick"],
        now_ms=content["now_ms"],
        elapsed_ms=content["elapsed_ms"],
        rows=content["rows"],
        before=content["before"],
        after=content["after"],
        parts=content["parts"],
        unread=content.get("unread", ()),
    )


def _files(folder: Path) -> list[tuple[int, int, Path]]:
    """Session, number and path, in the order in which they were written."""
    named = ((NAME.fullmatch(path.name), path) for path in folder.glob("*.seg"))
    return sorted((int(name[1]), int(name[2]), path) for name, path in named if name)


def _size_of(files: list[tuple[int, int, Path]]) -> int:
    return sum(path.stat().st_size for _, _, path in files)
