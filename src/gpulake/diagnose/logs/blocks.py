"""Cuts a stream of bytes into blocks of whole lines, independent of how it arrives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from gpulake.diagnose.logs.shapes import cleaned, shapes_of

# Fits the processor's cache: larger blocks are slower.
BLOCK_BYTES = 1 << 19
# A line longer than a block is cut into overlapping pieces.
OVERLAP_BYTES = 4096
LINE_FEED = ord("\n")

# Number of the line, and its part: the state of a progress bar, or the piece of a very long line.
Place = tuple[int, int]


class Block:
    def __init__(self, text: bytes, is_open: bool, number: int, part: int = 0) -> None:
        self.is_open = is_open  # its last line continues in the next block; else a line feed followed
        self.text = cleaned(text if is_open else text.removesuffix(b"\r"))
        self.number = number
        self._part = part
        self._has_parts = b"\r" in self.text
        self._segments: list[bytes] | None = None
        self._starts: list[int] | None = None
        self.lines = 0

    def shapes(self, dropped: bytes) -> list[bytes]:
        found = shapes_of(self.text, dropped)
        self.lines = self.text.count(b"\n") + 1 if self._has_parts else len(found)
        return found

    @property
    def segments(self) -> list[bytes]:
        """Its lines and the states of its progress bars, one for each shape."""
        if self._segments is None:
            text = self.text.replace(b"\r", b"\n") if self._has_parts else self.text
            self._segments = text.split(b"\n")
        return self._segments

    def forget_segments(self) -> None:
        self._segments = self._starts = None

    def place(self, index: int) -> Place:
        """Of a segment."""
        if not self._has_parts:
            return self.number + index, self._part if index == 0 else 0
        line = bisect_right(self._line_starts, index) - 1
        part = index - self._line_starts[line]
        return self.number + line, part + (self._part if line == 0 else 0)

    def shown(self, line: int) -> int:
        """The segment of a line that a terminal would show in the end."""
        if not self._has_parts:
            return line
        first, end = self._line_starts[line], self._line_starts[line + 1]
        return next((index for index in range(end - 1, first, -1) if self.segments[index].strip()), first)

    def following(self) -> tuple[int, int]:
        """Number and part of the begin of the next block."""
        if not self.is_open:
            return self.number + self.lines, 0
        number, part = self.place(len(self.segments) - 1)
        return number, part + 1

    @property
    def _line_starts(self) -> list[int]:
        if self._starts is None:
            self._starts = [0, *accumulate(line.count(b"\r") + 1 for line in self.text.split(b"\n"))]
        return self._starts


class Cutter:
    """Takes chunks and gives texts of blocks without the final line feed, and whether there was none."""

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        self._overlap = min(OVERLAP_BYTES, block_bytes // 4)
        self._parts: list[bytes] = []
        self._held = 0
        self.bytes_read = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        self.bytes_read += len(chunk)
        view = memoryview(chunk)
        begin = 0
        while self._held + len(chunk) - begin >= self._block_bytes:
            limit = begin + self._block_bytes - self._held
            end = chunk.rfind(b"\n", begin, limit)
            if end >= 0:
                text = b"".join((*self._parts, view[begin:end]))
                self._hold(b"")
                begin = end + 1
                yield text, False
            else:
                block = b"".join((*self._parts, view[begin:limit]))
                end, following = self._cut(block)
                self._hold(block[following:])
                begin = limit
                is_open = block[end - 1] != LINE_FEED
                yield block[: end if is_open else end - 1], is_open
        self._parts.append(chunk[begin:])
        self._held += len(chunk) - begin

    def _hold(self, text: bytes) -> None:
        self._parts, self._held = [text], len(text)

    def rest(self) -> tuple[bytes, bool]:
        data = b"".join(self._parts)
        self._parts, self._held = [], 0
        return data.removesuffix(b"\n"), not data.endswith(b"\n")

    def _cut(self, block: bytes) -> tuple[int, int]:
        """Where it ends, and where the next one begins."""
        for ending in (b"\n", b"\r"):
            end = block.rfind(ending) + 1
            if end > 0:
                return end, end
        return len(block), len(block) - self._overlap
