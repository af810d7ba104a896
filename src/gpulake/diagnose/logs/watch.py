"""Lines of the shapes in which a pattern may be found, looked at one by one, and kept where it is."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count

from gpulake.diagnose.logs.blocks import Block
from gpulake.diagnose.logs.census import MOST_SHAPE_BYTES
from gpulake.diagnose.logs.keeping import FIRST_HITS, LAST_HITS, Entry, Keeper, Pair, Spot, entry_of, follow
from gpulake.diagnose.logs.markers import MARKERS
from gpulake.diagnose.logs.shapes import DIGITS, is_binary, readable, shape_of
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import EXPLAINING

MOST_WATCHED = 10_000
# Blocks after which the last lines that a pattern matches are looked for.
ROUND = 32
# Of a block, so many lines of a shape are remembered until then; what it takes to find more is done again.
REMEMBERED = 64
CONTEXT = (3, 3)  # lines before and after
# Roles of lines that are evidence: for a failure, or for its absence.
NEVER_DROPPED = (*EXPLAINING, "success")
# Roles of lines that are understood without others.
ALONE = ("start", "progress", "success", "noise")


@dataclass(frozen=True)
class _Waiting:
    """Lines of which only the last that match are wanted. They are known at the end of a round."""

    pair: Pair
    block: int  # place in the round
    shape: bytes
    begin: int = 0  # the first segment that counts
    last: array[int] | None = None  # the last segments of the shape; None: not looked for yet
    is_cut: bool = True  # there are more


class Watch:
    """Patterns are the rules' in their order, then the markers'."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._automaton = rulebook.automaton
        self._contexts = [(0, 0) if rule.role in ALONE else CONTEXT for rule in rulebook.rules]
        self._contexts += [(marker.before, marker.after) for marker in MARKERS]
        self._is_telling = [rule.role in NEVER_DROPPED for rule in rulebook.rules] + [True] * len(MARKERS)
        self._pairs: dict[bytes, list[Pair]] = {}
        self._others: dict[int, Pair] = {}  # one for each pattern, for shapes beyond the bound
        self._before: dict[bytes, list[Pair]] = {}  # from when fewer characters were dropped
        self._dropped = DIGITS
        self._met: dict[bytes, int] = {}  # lines of a shape that were there before this block
        self._keeper = Keeper()
        self._blocks: list[Block] = []  # of the round, after the last one of the round before
        self._waiting: list[_Waiting] = []
        self._shapes: dict[int, list[bytes]] = {}  # of the block of the round that was looked at last

    @property
    def shapes(self) -> Container[bytes]:
        return self._pairs.keys()

    def look(
        self, block: Block, shapes: Sequence[bytes], fresh: Sequence[bytes], counts: Mapping[bytes, int]
    ) -> list[bytes]:
        """Keeps what is found in a block. Gives back the shapes that were too many to be watched.

        The counts of all shapes, this block's among them, tell which of the watched ones it has.
        """
        self._keeper.settle(block)
        self._blocks.append(block)
        beyond = self._begin(fresh)
        for shape, indices in _positions({*beyond, *self._wanted(counts)}, shapes).items():
            for pair in self._pairs[shape]:
                self._look(pair, shape, indices)
        for shape in beyond:
            del self._pairs[shape]
        if len(self._blocks) > ROUND:
            self._end_round()
        elif len(self._blocks) > 1:
            self._blocks[-2].forget_segments()
        return beyond

    def _wanted(self, counts: Mapping[bytes, int]) -> list[bytes]:
        """Watched shapes that the last block has, but for those of which the last lines will do, and are many."""
        wanted = []
        for shape, pairs in self._pairs.items():
            total = counts.get(shape, 0)
            met = self._met.get(shape, 0)
            if total == met:
                continue
            self._met[shape] = total
            if total - met > REMEMBERED and all(self._is_saturated(pair) for pair in pairs):
                self._waiting += [_Waiting(pair, len(self._blocks) - 1, shape) for pair in pairs]
            else:
                wanted.append(shape)
        return wanted

    def _is_saturated(self, pair: Pair) -> bool:
        return pair.hits >= FIRST_HITS or self._keeper.is_full

    @property
    def is_full(self) -> bool:
        return len(self._pairs) >= MOST_WATCHED

    def drop(self, dropped: bytes, shapes: Sequence[bytes]) -> list[bytes]:
        """From here on shapes have fewer characters: these are all that were met before. Gives back like `look`."""
        self._end_round()
        self._before = defaultdict(list)
        for shape, pairs in self._pairs.items():
            self._before[shape_of(shape, dropped)] += pairs
        self._pairs = {}
        self._met = {}
        self._dropped = dropped
        beyond = self._begin(shapes)
        for shape in beyond:
            del self._pairs[shape]
        return beyond

    def kept(self) -> dict[Spot, bytes]:
        """Every line that is kept, with what stands around it."""
        self._end_round()
        found: dict[Spot, bytes] = {}
        for entry in chain(self._keeper.first, chain.from_iterable(pair.last or () for pair in self._all_pairs())):
            found.update(entry.texts)
        return found

    def telling_hits(self, shape: bytes) -> int | None:
        """Of the lines of this shape, those that may never be dropped; None where they were not all counted."""
        found = [pair.hits for pair in self._of(shape) if self._is_telling[pair.pattern]]
        return None if any(hits >= FIRST_HITS for hits in found) else sum(found)

    def _of(self, shape: bytes) -> Iterator[Pair]:
        return chain(self._pairs.get(shape, ()), self._before.get(shape, ()))

    def _all_pairs(self) -> Iterator[Pair]:
        watched = chain(self._pairs.values(), self._before.values())
        return chain(chain.from_iterable(watched), self._others.values())

    def _begin(self, fresh: Sequence[bytes]) -> list[bytes]:
        """Watches those of the new shapes in which something may be found."""
        beyond = []
        if is_binary(b"".join(fresh)):  # no text at all, and slow to look at
            fresh = [shape for shape in fresh if not is_binary(shape)]
        for shape, patterns in self._automaton.candidates(fresh, self._dropped).items():
            if shape in self._pairs:
                continue
            if len(self._pairs) < MOST_WATCHED and len(shape) <= MOST_SHAPE_BYTES:
                self._pairs[shape] = [Pair(pattern) for pattern in patterns]
            else:
                self._pairs[shape] = [self._others.setdefault(pattern, Pair(pattern)) for pattern in patterns]
                beyond.append(shape)
        return beyond

    def _look(self, pair: Pair, shape: bytes, indices: Sequence[int]) -> None:
        """In the last block of the round."""
        at = len(self._blocks) - 1
        begin = 0
        if not self._is_saturated(pair):
            for place in self._found(at, pair.pattern, indices):
                self._keeper.keep_first(self._entry(at, pair.pattern, indices[place]))
                pair.hits += 1
                begin = place + 1
                if self._is_saturated(pair):
                    break
            else:
                return
        if begin < len(indices):
            last = array("I", indices[begin:][-REMEMBERED:])
            is_cut = len(indices) - begin > REMEMBERED
            self._waiting.append(_Waiting(pair, at, shape, indices[begin], last, is_cut))

    def _end_round(self) -> None:
        """Keeps the last lines that match, looking from the end."""
        found: dict[int, list[Entry]] = defaultdict(list)
        for waiting in reversed(self._waiting):
            entries = found[id(waiting.pair)]
            wanted = LAST_HITS - len(entries)
            if wanted > 0:
                hits = self._last_found(waiting, wanted)
                entries += [self._entry(waiting.block, waiting.pair.pattern, index) for index in reversed(hits)]
        for waiting in self._waiting:
            for entry in reversed(found.pop(id(waiting.pair), ())):
                self._keeper.keep_last(waiting.pair, entry)
                waiting.pair.hits += 1
        self._waiting = []
        self._shapes = {}
        self._blocks = self._blocks[-1:]
        self._keeper.trim(self._all_pairs())

    def _entry(self, at: int, pattern: int, index: int) -> Entry:
        spans = self._automaton.spans(pattern, self._blocks[at].segments[index])
        entry = entry_of(self._blocks, at, index, self._contexts[pattern], spans)
        follow(entry, self._blocks[at], index + 1)
        for block in self._blocks[at + 1 :]:
            follow(entry, block)
        return entry

    def _found(self, at: int, pattern: int, indices: Sequence[int]) -> Iterator[int]:
        """Places among the indices of the segments that it is found in."""
        segments = self._blocks[at].segments
        for place in self._automaton.matching(pattern, [segments[index] for index in indices]):
            if self._is_certain(pattern, segments[indices[place]]):
                yield place

    def _last_found(self, waiting: _Waiting, wanted: int) -> list[int]:
        """What is found often is found soon."""
        found: list[int] = []
        for indices in self._batches(waiting):
            end, size = len(indices), LAST_HITS
            while end > 0 and len(found) < wanted:
                batch = indices[max(0, end - size) : end]
                places = self._found(waiting.block, waiting.pair.pattern, batch)
                found = [*(batch[place] for place in places), *found]
                end -= size
                size *= 4
        return found[-wanted:]

    def _batches(self, waiting: _Waiting) -> Iterator[Sequence[int]]:
        """Segments of its shape: those that are remembered, then the ones before."""
        end = None
        if waiting.last is not None:
            yield waiting.last
            end = waiting.last[0]
        if waiting.is_cut:
            if waiting.block not in self._shapes:
                self._shapes = {waiting.block: self._blocks[waiting.block].shapes(self._dropped)}
            shapes = self._shapes[waiting.block]
            yield [*_same(waiting.shape, shapes, waiting.begin, end)]

    def _is_certain(self, pattern: int, segment: bytes) -> bool:
        if pattern >= len(self._rulebook.rules):
            return True
        return self._rulebook.is_matched(self._rulebook.rules[pattern], readable(segment))


def _positions(wanted: Collection[bytes], shapes: Sequence[bytes]) -> Mapping[bytes, Sequence[int]]:
    """Where among the shapes the wanted ones are, in the order in which they first come."""
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    if len(wanted) == 1:
        (shape,) = wanted
        found[shape].extend(_same(shape, shapes))
    elif wanted:
        for index in compress(count(), map(wanted.__contains__, shapes)):
            found[shapes[index]].append(index)
    return found


def _same(shape: bytes, shapes: Sequence[bytes], begin: int = 0, end: int | None = None) -> Iterator[int]:
    stop = len(shapes) if end is None else end
    try:
        while True:
            begin = shapes.index(shape, begin, stop) + 1
            yield begin - 1
    except ValueError:  # no more
        return
