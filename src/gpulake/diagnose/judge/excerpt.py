"""Chooses the lines of a log that fit into a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpulake.diagnose.logs.digest import Line

CONTEXT = 2  # lines before and after a hit
LAST_LINES = 40
HITS_RATIO = 0.6  # of the lines, so that many hits leave room for their context and for the end

_VARYING = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")


def chosen(lines: Sequence[Line], cited: set[tuple[str, int]], most: int) -> list[Line]:
    """The most important first: cited lines, hits of each kind, the end of each file, context of the hits."""
    found: dict[int, None] = {}
    quoted = [place for place, line in enumerate(lines) if (line.file, line.number) in cited]
    kinds = _from_both_ends(_kinds(lines))
    hits = [*quoted, *kinds[: max(1, int(most * HITS_RATIO))]]
    last = _last_of_each_file(lines)
    around = [near for place in hits for near in _around(lines, place)]
    rest = _from_both_ends([place for place, line in enumerate(lines) if line.is_hit])
    for place in (*hits, *last, *around, *kinds, *rest, *range(len(lines) - 1, -1, -1)):
        if len(found) >= most:
            break
        found[place] = None
    return [lines[place] for place in found]


def _kinds(lines: Sequence[Line]) -> list[int]:
    """The first and the last of the hits that differ only in numbers."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, line in enumerate(lines):
        if line.is_hit:
            kind = _VARYING.sub("0", line.text[:400])
            first.setdefault(kind, place)
            last[kind] = place
    return sorted({*first.values(), *last.values()})


def _from_both_ends(places: Sequence[int]) -> list[int]:
    """The first, the last, the second, the last but one: causes come early, outcomes late."""
    half = (len(places) + 1) // 2
    found = [place for pair in zip(places[:half], reversed(places[half:]), strict=False) for place in pair]
    return found if len(places) % 2 == 0 else [*found, places[half - 1]]


def _last_of_each_file(lines: Sequence[Line]) -> list[int]:
    """The last lines of all files, in turns."""
    places: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        places.setdefault(line.file, []).append(place)
    each = max(1, LAST_LINES // max(1, len(places)))
    return [ends[-step] for step in range(1, each + 1) for ends in places.values() if len(ends) >= step]


def _around(lines: Sequence[Line], place: int) -> Iterator[int]:
    for near in range(max(0, place - CONTEXT), min(len(lines), place + CONTEXT + 1)):
        if lines[near].file == lines[place].file and abs(lines[near].number - lines[place].number) <= CONTEXT:
            yield near
