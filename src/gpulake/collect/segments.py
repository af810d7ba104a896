"""Segments: append-only files of blocks, one block a tick. A block is acknowledged once it is synced to the disk.

A line is a block: checksum, space, JSON, tab, JSON of the rows. An empty line precedes it, so that half a line or a
damaged newline costs one block, not two. The first line of each segment is its header, which names the columns of the
rows, so that a segment can be read without the code that wrote it; it is written twice, since nothing else in the file
can be read without it. Files are named by session and number, so that their order needs no clock.

Acknowledged blocks are never deleted. When the cap is reached or the disk is full, new blocks are dropped, and the
caller gets an error with the first lost tick.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
    """One tick. Positions are those of resumable sources before and after it; parts are their rows: by source and kind,
    the index of the first and the count."""

    tick: int
    now_ms: int  # wall clock
    elapsed_ms: int  # since boot
    rows: Mapping[str, Sequence[Sequence[Any]]]  # by kind
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    unread: Sequence[str] = ()  # incremental sources that could not be read: no rows do not mean no change


COLUMNS = [column.name for column in fields(Block)]


@dataclass(frozen=True)
class Damage:
    file: str
    line_number: int
    reason: str
    is_torn_tail: bool  # half a line at the end, as a killed writer leaves it: never acknowledged


@dataclass(frozen=True)
class Segment:
    header: Mapping[str, Any]
    blocks: tuple[Block, ...]
    damage: tuple[Damage, ...]


class NoRoomError(Exception):
    """Blocks are lost from this tick on: the cap is reached, or the disk is full or failing."""

    def __init__(self, reason: str, lost_from: int) -> None:
        super().__init__(reason)
        self.lost_from = lost_from


class SegmentWriter:
    """Writes one session. Files of older sessions are never changed."""

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
            # Sources resume from its last block, which may have been written and not synced.
            sync(files[-1][2])
        self.written_bytes = 0
        self.acknowledged_tick = 0

    @property
    def segment(self) -> str:
        """The file that is being written, or was last."""
        return self._path.name if self._number else ""

    def append(self, block: Block) -> None:
        """Writes the block atomically or raises NoRoomError. The next sync acknowledges it."""
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
        """Acknowledges what was written, or raises NoRoomError: then all blocks since the last sync are lost."""
        if not self._unsynced:
            return
        try:
            os.fdatasync(self._file)
            if not os.fstat(self._file).st_nlink:
                raise OSError(0, "the segment was deleted")
        except OSError as error:
            # A second fsync may succeed although the kernel dropped the data: begin a new file.
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
        # No file for a header alone: with a full disk there would be one per tick.
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
        self.used_bytes = _size_of(_files(self._folder))  # files may have been deleted
        if self.used_bytes + wanted_bytes > self.cap_bytes:
            raise OSError(0, f"the cap of {self.cap_bytes} bytes is reached")

    def _abandon(self) -> None:
        """Truncates the file to what was acknowledged; deletes it if nothing was."""
        try:
            if self._synced_size:
                os.ftruncate(self._file, self._synced_size)
            else:
                self._path.unlink()
        except OSError:
            pass  # what remains was never acknowledged: readers go by the positions
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
    """Every segment in the order of writing. Damage is reported, and the rest is read."""
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
                blocks.append(Block(**{name: found[name] for name in COLUMNS if name in found}))
        yield Segment(header, tuple(blocks), tuple(damage))


def read_blocks_once(
    folder: Path, *, report: Callable[[Damage], None] = lambda _: None
) -> Iterator[tuple[Mapping[str, Any], Block]]:
    """Every block with its header, in order, and no row of a resumable source twice.

    A source that went back, because a block could not be acknowledged, repeats its rows in a later block: those of the
    earlier one are removed. Positions are compared within one boot.
    """
    headers, cut = _headers_and_cuts(folder)
    for session, number, path in _files(folder):
        for found in _contents(path, whole_of):
            if isinstance(found, Damage):
                report(found)
            elif "format" in found:
                continue
            elif session not in headers:
                report(Damage(path.name, 0, f"tick {found['tick']} belongs to no header", is_torn_tail=False))
            else:
                block = Block(**{name: found[name] for name in COLUMNS if name in found})
                for source in cut.get((session, number, block.tick), ()):
                    block = _without(block, source)
                yield headers[session], block


def read_moments(folder: Path) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """Header, wall clock and time since boot of every block, without parsing its rows."""
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
    """The positions of resumable sources in this boot after the newest complete block."""
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
    """The header of each session, and which rows later blocks repeat: by session, file and tick, the sources."""
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
    """The block without the rows of the source; those of others keep their order."""
    rows = dict(block.rows)
    parts = dict(block.parts)
    for kind, (first, count) in parts.pop(source, {}).items():
        both = rows.get(kind, ())
        rows[kind] = [*both[:first], *both[first + count :]]
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


def _files(folder: Path) -> list[tuple[int, int, Path]]:
    """Session, number and path, in the order of writing."""
    named = ((NAME.fullmatch(path.name), path) for path in folder.glob("*.seg"))
    return sorted((int(name[1]), int(name[2]), path) for name, path in named if name)


def _size_of(files: list[tuple[int, int, Path]]) -> int:
    return sum(path.stat().st_size for _, _, path in files)
