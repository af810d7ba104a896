"""Selects the lines that patterns match, among lines of the shapes that may match."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count

from gpulake.diagnose.logs.blocks import Block
from gpulake.diagnose.logs.census import MOST_SHAPE_BYTES
from gpulake.diagnose.logs.kept_lines import FIRST_HITS, LAST_HITS, Entry, Keeper, Pair, Spot, add_context, entry_of
from gpulake.diagnose.logs.markers import MARKERS
from gpulake.diagnose.logs.shapes import DIGITS, is_binary, readable, shape_of
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import EXPLAINING

MOST_SHAPES_SELECTED = 10_000
# Blocks after which the last matching lines are searched.
ROUND = 32
# Lines of a shape per block that are remembered until then; more are found by searching again.
REMEMBERED = 64
CONTEXT = (3, 3)  # lines before and after
# Roles of lines that are evidence of a failure or of success, and are never dropped.
PROTECTED = (*EXPLAINING, "success")
# Roles of lines that need no context.
ALONE = ("start", "progress", "success", "noise")


@dataclass(frozen=True)
class _Waiting:
    """Lines of which only the last matches are kept, found at the end of a round."""

    pair: Pair
    block: int  # place in the round
    shape: bytes
    begin: int = 0  # the first segment that counts
    last: array[int] | None = None  # the last segments of the shape; None: not searched yet
    is_cut: bool = True  # there are more


class LineSelector:
    """The patterns are those of the rules in their order, then those of the markers."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._automaton = rulebook.automaton
        self._contexts = [(0, 0) if rule.role in ALONE else CONTEXT for rule in rulebook.rules]
        self._contexts += [(marker.before, marker.after) for marker in MARKERS]
        self._is_protected = [rule.role in PROTECTED for rule in rulebook.rules] + [True] * len(MARKERS)
        self._pairs: dict[bytes, list[Pair]] = {}
        self._overflow: dict[int, Pair] = {}  # by pattern, for shapes beyond the bound
        self._before: dict[bytes, list[Pair]] = {}  # from when fewer characters were dropped
        self._dropped = DIGITS
        self._met: dict[bytes, int] = {}  # lines of a shape before this block
        self._keeper = Keeper()
        self._blocks: list[Block] = []  # of the round, after the last one of the round before
        self._waiting: list[_Waiting] = []
        self._shapes: dict[int, list[bytes]] = {}  # of the block searched last

    @property
    def shapes(self) -> Container[bytes]:
        return self._pairs.keys()

    def look(
        self, block: Block, shapes: Sequence[bytes], fresh: Sequence[bytes], counts: Mapping[bytes, int]
    ) -> list[bytes]:
        """Keeps the matching lines of a block. Returns the shapes beyond the bound.

        The counts of all shapes, with this block's, show which of the selected shapes it has.
        """
        self._keeper.complete(block)
        self._blocks.append(block)
        beyond = self._select_shapes(fresh)
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
        """Selected shapes of the last block, except frequent ones of which only the last lines are needed."""
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
        return len(self._pairs) >= MOST_SHAPES_SELECTED

    def drop(self, dropped: bytes, shapes: Sequence[bytes]) -> list[bytes]:
        """From here on more characters are dropped from shapes; `shapes` are all so far. Returns as `look` does."""
        self._end_round()
        self._before = defaultdict(list)
        for shape, pairs in self._pairs.items():
            self._before[shape_of(shape, dropped)] += pairs
        self._pairs = {}
        self._met = {}
        self._dropped = dropped
        beyond = self._select_shapes(shapes)
        for shape in beyond:
            del self._pairs[shape]
        return beyond

    def kept(self) -> dict[Spot, bytes]:
        """Every kept line, with its context."""
        self._end_round()
        found: dict[Spot, bytes] = {}
        for entry in chain(self._keeper.first, chain.from_iterable(pair.last or () for pair in self._all_pairs())):
            found.update(entry.texts)
        return found

    def protected_hits(self, shape: bytes) -> int | None:
        """Lines of this shape that may never be dropped; None where they were not all counted."""
        pairs = chain(self._pairs.get(shape, ()), self._before.get(shape, ()))
        found = [pair.hits for pair in pairs if self._is_protected[pair.pattern]]
        return None if any(hits >= FIRST_HITS for hits in found) else sum(found)

    def _all_pairs(self) -> Iterator[Pair]:
        watched = chain(self._pairs.values(), self._before.values())
        return chain(chain.from_iterable(watched), self._overflow.values())

    def _select_shapes(self, fresh: Sequence[bytes]) -> list[bytes]:
        """Selects the new shapes that patterns may match. Returns those beyond the bound."""
        beyond = []
        if is_binary(b"".join(fresh)):  # no text, and slow to search
            fresh = [shape for shape in fresh if not is_binary(shape)]
        for shape, patterns in self._automaton.candidates(fresh, self._dropped).items():
            if shape in self._pairs:
                continue
            if len(self._pairs) < MOST_SHAPES_SELECTED and len(shape) <= MOST_SHAPE_BYTES:
                self._pairs[shape] = [Pair(pattern) for pattern in patterns]
            else:
                self._pairs[shape] = [self._overflow.setdefault(pattern, Pair(pattern)) for pattern in patterns]
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
        """Keeps the last matching lines, searching from the end."""
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
        add_context(entry, self._blocks[at], index + 1)
        for block in self._blocks[at + 1 :]:
            add_context(entry, block)
        return entry

    def _found(self, at: int, pattern: int, indices: Sequence[int]) -> Iterator[int]:
        """Places among the indices whose segments match."""
        segments = self._blocks[at].segments
        for place in self._automaton.matching(pattern, [segments[index] for index in indices]):
            if self._is_certain(pattern, segments[indices[place]]):
                yield place

    def _last_found(self, waiting: _Waiting, wanted: int) -> list[int]:
        """Searches in growing batches from the end: frequent matches are found early."""
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
        """Segments of its shape: the remembered ones, then those before."""
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
    """Places of the wanted shapes, in the order of their first occurrence."""
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
