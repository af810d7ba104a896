"""Which of the lines that patterns match are kept, and what stands around them: a bounded choice."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpulake.diagnose.logs.blocks import Block

# Of the lines of one shape that one pattern matches, the first and the last are kept: the rest says the same.
FIRST_HITS = 64
LAST_HITS = 16
# Of all lines together, so that no log can fill the memory.
MOST_FIRST_BYTES = 32 << 20
MOST_LAST_BYTES = 32 << 20
# A longer line is kept in excerpts: its beginning, its end, and what stands around a match.
LONG_LINE_BYTES = 8192
HEAD_BYTES = 4096
TAIL_BYTES = 2048
AROUND_BYTES = 512
MOST_EXCERPTS = 4
# Frames above the line that ends a traceback.
MOST_FRAME_LINES = 60
_FRAME_LINE = re.compile(rb'^\s+\S|File "|Traceback|[\]:|>]\s{3,}\S|^[^"\s]{1,40}\s{3,}\S')

# Where a kept text stands: its segment, and how far into it an excerpt begins.
Spot = tuple[int, int, int]


@dataclass
class Entry:
    """A line that a pattern matches, with the lines that are kept with it."""

    texts: dict[Spot, bytes]
    owed: int  # lines that follow and are not read yet

    @property
    def size(self) -> int:
        return sum(map(len, self.texts.values())) + 100 * len(self.texts)


@dataclass
class Pair:
    """A shape, and a pattern that may be found in its lines."""

    pattern: int
    hits: int = 0  # exact up to FIRST_HITS; beyond, at least so many
    last: deque[Entry] | None = None


@dataclass
class Keeper:
    """What is kept so far."""

    first: list[Entry] = field(default_factory=list)
    first_bytes: int = 0
    last_bytes: int = 0  # an estimate from above
    _owing: list[Entry] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.first_bytes >= MOST_FIRST_BYTES

    def keep_first(self, entry: Entry) -> None:
        self.first.append(entry)
        self.first_bytes += entry.size
        if entry.owed > 0:
            self._owing.append(entry)

    def keep_last(self, pair: Pair, entry: Entry) -> None:
        if pair.last is None:
            pair.last = deque(maxlen=LAST_HITS)
        pair.last.append(entry)
        self.last_bytes += entry.size
        if entry.owed > 0:
            self._owing.append(entry)

    def settle(self, block: Block) -> None:
        """Entries whose context runs on into this block get it."""
        for entry in self._owing:
            follow(entry, block)
        self._owing = [entry for entry in self._owing if entry.owed > 0]

    def trim(self, pairs: Iterable[Pair]) -> None:
        """Forgets the oldest of the last ones, once they are too many."""
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
    """A segment of the block that stands at this place among its neighbours, and what belongs to it."""
    before, after = context
    entry = Entry(dict(excerpts(blocks[at], index, spans)), owed=after)
    for back in range(MOST_FRAME_LINES if before else 0):
        index -= 1
        while index < 0 and at > 0:
            at -= 1
            index += len(blocks[at].segments)
        if index < 0 or (back >= before and not _FRAME_LINE.search(blocks[at].segments[index][:200])):
            break
        entry.texts.update(excerpts(blocks[at], index))
    return entry


def follow(entry: Entry, block: Block, begin: int = 0) -> None:
    """Gives the entry what it is owed, as far as the block has it."""
    end = min(begin + entry.owed, len(block.segments))
    for index in range(begin, end):
        entry.texts.update(excerpts(block, index))
    entry.owed -= max(0, end - begin)


def excerpts(block: Block, index: int, spans: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[Spot, bytes]]:
    """The line itself, or of a long one what is kept of it."""
    number, part = block.place(index)
    text = block.segments[index]
    if part > 0 and not text.strip():
        return  # a progress bar that was wiped
    if len(text) <= LONG_LINE_BYTES:
        yield (number, part, 0), text
        return
    yield (number, part, 0), text[:HEAD_BYTES]
    yield (number, part, len(text) - TAIL_BYTES), text[-TAIL_BYTES:]
    for _, (begin, end) in zip(range(MOST_EXCERPTS), spans, strict=False):
        first = max(0, begin - AROUND_BYTES)
        if min(end, begin + HEAD_BYTES) > HEAD_BYTES and begin < len(text) - TAIL_BYTES:
            yield (number, part, first), text[first : min(end, begin + HEAD_BYTES) + AROUND_BYTES]
