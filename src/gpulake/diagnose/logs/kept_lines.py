"""Which matching lines are kept, with their context, within bounds."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpulake.diagnose.logs.blocks import Block

# Of the lines of one shape that one pattern matches, only the first and the last are kept.
FIRST_HITS = 64
LAST_HITS = 16
# Bounds over all lines, so that no log can fill the memory.
MOST_FIRST_BYTES = 32 << 20
MOST_LAST_BYTES = 32 << 20
# A longer line is kept in excerpts: its beginning, its end, and the text around a match.
LONG_LINE_BYTES = 8192
HEAD_BYTES = 4096
TAIL_BYTES = 2048
AROUND_BYTES = 512
MOST_EXCERPTS = 4
# Frames above the line that ends a traceback.
MOST_FRAME_LINES = 60
_FRAME_LINE = re.compile(rb'^\s+\S|File "|Traceback|[\]:|>]\s{3,}\S|^[^"\s]{1,40}\s{3,}\S')

# The place of a kept text: line, part, and where in it an excerpt begins.
Spot = tuple[int, int, int]


@dataclass
class Entry:
    """A matching line, with its context."""

    texts: dict[Spot, bytes]
    context_left: int  # context lines that are not read yet

    @property
    def size(self) -> int:
        return sum(map(len, self.texts.values())) + 100 * len(self.texts)


@dataclass
class Pair:
    """A shape, and a pattern that may match its lines."""

    pattern: int
    hits: int = 0  # exact up to FIRST_HITS; beyond, a lower bound
    last: deque[Entry] | None = None


@dataclass
class Keeper:
    """The lines kept so far."""

    first: list[Entry] = field(default_factory=list)
    first_bytes: int = 0
    last_bytes: int = 0  # an upper bound
    _incomplete: list[Entry] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.first_bytes >= MOST_FIRST_BYTES

    def keep_first(self, entry: Entry) -> None:
        self.first.append(entry)
        self.first_bytes += entry.size
        if entry.context_left > 0:
            self._incomplete.append(entry)

    def keep_last(self, pair: Pair, entry: Entry) -> None:
        if pair.last is None:
            pair.last = deque(maxlen=LAST_HITS)
        pair.last.append(entry)
        self.last_bytes += entry.size
        if entry.context_left > 0:
            self._incomplete.append(entry)

    def complete(self, block: Block) -> None:
        """Completes the context of entries that continues in this block."""
        for entry in self._incomplete:
            add_context(entry, block)
        self._incomplete = [entry for entry in self._incomplete if entry.context_left > 0]

    def trim(self, pairs: Iterable[Pair]) -> None:
        """Drops the oldest of the last entries, once there are too many."""
        if self.last_bytes < MOST_LAST_BYTES:
            return
        held = [pair for pair in pairs if pair.last]
        entries = sorted((entry for pair in held for entry in pair.last or ()), key=lambda entry: max(entry.texts))
        total = sum(entry.size for entry in entries)
        dropped = set()
        for entry in entries:
            if total <= MOST_LAST_BYTES // 2:
                break
            total -= entry.size
            dropped.add(id(entry))
        for pair in held:
            pair.last = deque((entry for entry in pair.last or () if id(entry) not in dropped), maxlen=LAST_HITS)
        self.last_bytes = total


def entry_of(
    blocks: Sequence[Block], at: int, index: int, context: tuple[int, int], spans: Iterable[tuple[int, int]]
) -> Entry:
    """The entry of a segment of one of the blocks, with the context before it."""
    before, after = context
    entry = Entry(dict(excerpts(blocks[at], index, spans)), context_left=after)
    for back in range(MOST_FRAME_LINES if before else 0):
        index -= 1
        while index < 0 and at > 0:
            at -= 1
            index += len(blocks[at].segments)
        if index < 0 or (back >= before and not _FRAME_LINE.search(blocks[at].segments[index][:200])):
            break
        entry.texts.update(excerpts(blocks[at], index))
    return entry


def add_context(entry: Entry, block: Block, begin: int = 0) -> None:
    """Adds context lines of the block to the entry."""
    end = min(begin + entry.context_left, len(block.segments))
    for index in range(begin, end):
        entry.texts.update(excerpts(block, index))
    entry.context_left -= max(0, end - begin)


def excerpts(block: Block, index: int, spans: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[Spot, bytes]]:
    """The line, or excerpts of a long one."""
    number, part = block.place(index)
    text = block.segments[index]
    if part > 0 and not text.strip():
        return  # a cleared progress bar
    if len(text) <= LONG_LINE_BYTES:
        yield (number, part, 0), text
        return
    yield (number, part, 0), text[:HEAD_BYTES]
    yield (number, part, len(text) - TAIL_BYTES), text[-TAIL_BYTES:]
    for _, (begin, end) in zip(range(MOST_EXCERPTS), spans, strict=False):
        first = max(0, begin - AROUND_BYTES)
        if min(end, begin + HEAD_BYTES) > HEAD_BYTES and begin < len(text) - TAIL_BYTES:
            yield (number, part, first), text[first : min(end, begin + HEAD_BYTES) + AROUND_BYTES]
