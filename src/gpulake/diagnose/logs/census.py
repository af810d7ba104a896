"""Counts the lines of a log by shape, within bounds: rare shapes are forgotten first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpulake.diagnose.logs.blocks import Block
from gpulake.diagnose.logs.shapes import shape_of

MOST_SHAPES = 30_000
MOST_BYTES = 24 << 20
MOST_SHAPE_BYTES = 2048
EXAMPLE_BYTES = 320
# Lines of a shape this frequent are routine.
ROUTINE_LINES = 5


@dataclass
class Census:
    counts: Counter[bytes] = field(default_factory=Counter)
    firsts: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)  # number and text of the first such line
    forgotten_kept: int = 0  # lines of forgotten shapes that were not routine
    _bytes: int = 0

    def add(self, block: Block, shapes: Sequence[bytes]) -> list[bytes]:
        """Adds the shapes of a block; returns the new ones in order."""
        known = len(self.counts)
        self.counts.update(shapes)
        # New keys are at the end of a dictionary.
        fresh = list(islice(reversed(self.counts), len(self.counts) - known))[::-1]
        if fresh:
            self._note(block, shapes, fresh)
        return fresh

    def _note(self, block: Block, shapes: Sequence[bytes], fresh: list[bytes]) -> None:
        wanted = set(fresh)
        segments = block.segments
        for index, shape in enumerate(shapes):
            if shape not in wanted:
                continue
            wanted.remove(shape)
            key = self._shortened(shape)
            if key not in self.firsts:
                self.firsts[key] = block.place(index)[0], segments[index][:EXAMPLE_BYTES]
                self._bytes += len(key)
            if not wanted:
                return

    def _shortened(self, shape: bytes) -> bytes:
        """A long shape is counted by its beginning, and counts as new each time."""
        if len(shape) <= MOST_SHAPE_BYTES:
            return shape
        key = shape[:MOST_SHAPE_BYTES]
        self.counts[key] += self.counts.pop(shape)
        return key

    def forget(self, shape: bytes, is_protected: bool = False) -> None:
        """Removes a shape; only the number of its lines is kept."""
        shape = shape[:MOST_SHAPE_BYTES]
        count = self.counts.pop(shape, 0)
        if self.firsts.pop(shape, None) is not None:
            self._bytes -= len(shape)
        if is_protected or count < ROUTINE_LINES:
            self.forgotten_kept += count

    @property
    def is_full(self) -> bool:
        return len(self.counts) > MOST_SHAPES or self._bytes > MOST_BYTES

    def drop(self, dropped: bytes) -> None:
        """From here on more characters are dropped from shapes; the known ones are converted."""
        counts, firsts = self.counts, self.firsts
        self.counts, self.firsts = Counter(), {}
        for shape, count in counts.items():
            self.counts[shape_of(shape, dropped)] += count
        for shape, first in firsts.items():
            self.firsts.setdefault(shape_of(shape, dropped), first)
        self._bytes = sum(map(len, self.firsts))

    def fold(self, spared: Container[bytes]) -> None:
        """Forgets the rarer half of the shapes, except the spared ones."""
        by_count = sorted((shape for shape in self.counts if shape not in spared), key=self.counts.__getitem__)
        for shape in by_count[: len(by_count) // 2 + 1]:
            self.forget(shape)
