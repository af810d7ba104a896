"""Clock skew between nodes, from traces across them: a child span lies within its parent.

For each pair the offset to add to the second clock is between parent.start - child.start and parent.end - child.end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from gpulake.collect.cctf.files import Row, SortedFile

Host: TypeAlias = tuple[str, str]  # node and host_id
MOST_PAIRS = 100_000  # per two nodes


@dataclass
class Bounds:
    """The offsets that the pairs of two nodes allow."""

    least_ms: float = float("-inf")
    most_ms: float = float("inf")
    pairs: int = 0
    middles: list[float] = field(default_factory=list)

    def add(self, least_ms: float, most_ms: float) -> None:
        self.pairs += 1
        self.least_ms = max(self.least_ms, least_ms)
        self.most_ms = min(self.most_ms, most_ms)
        if len(self.middles) < MOST_PAIRS:
            self.middles.append((least_ms + most_ms) / 2)

    @property
    def is_consistent(self) -> bool:
        """Whether one offset explains all pairs; if not, a clock was set or drifted, or an interval is wrong."""
        return self.least_ms <= self.most_ms

    @property
    def estimate_ms(self) -> float:
        middle = median(self.middles)
        return min(max(middle, self.least_ms), self.most_ms) if self.is_consistent else middle


class Skew:
    """Joins child spans with their parents by sorting, so that memory stays bounded."""

    def __init__(self, folder: Path) -> None:
        self._spans = SortedFile(folder / "spans", lambda line: tuple(json.loads(line)))

    def note(self, row: Row, host: Host) -> None:
        start, end = row.get("ts_start"), row.get("ts_end")
        if not isinstance(start, int) or not isinstance(end, int):
            return
        trace = str(row.get("trace_id") or "")
        if row.get("span_id"):
            self._add([trace, str(row["span_id"]), 0, *host, start, end])
        if row.get("parent_id"):
            self._add([trace, str(row["parent_id"]), 1, *host, start, end])

    def _add(self, entry: list[Any]) -> None:
        self._spans.add(tuple(entry), json.dumps(entry))

    def bounds(self) -> dict[tuple[Host, Host], Bounds]:
        """By two hosts, in the order of their names: what to add to the clock of the second."""
        found: dict[tuple[Host, Host], Bounds] = {}
        for _, group in groupby(self._entries(), key=lambda entry: entry[:2]):
            # The same span in two files counts once.
            entries = [entry for entry, _ in groupby(group)]
            parents = [entry for entry in entries if entry[2] == 0]
            for child in (entry for entry in entries if entry[2] == 1):
                for parent in parents:
                    _compare(parent, child, found)
        return found

    def _entries(self) -> Iterator[list[Any]]:
        for line in self._spans.drain():
            yield json.loads(line)


def _compare(parent: list[Any], child: list[Any], found: dict[tuple[Host, Host], Bounds]) -> None:
    above, below = (parent[3], parent[4]), (child[3], child[4])
    if above == below:
        return
    least, most = parent[5] - child[5], parent[6] - child[6]
    if least > most:
        return  # the child took longer than its parent: no information
    if above < below:
        found.setdefault((above, below), Bounds()).add(least, most)
    else:
        found.setdefault((below, above), Bounds()).add(-most, -least)


def corrections(bounds: Mapping[tuple[Host, Host], Bounds]) -> dict[Host, int]:
    """Corrections of each clock, relative to the first node of a connected group; edges with most pairs first."""
    edges: dict[Host, dict[Host, tuple[int, float]]] = {}
    for (first, second), bound in bounds.items():
        edges.setdefault(first, {})[second] = (bound.pairs, bound.estimate_ms)
        edges.setdefault(second, {})[first] = (bound.pairs, -bound.estimate_ms)
    offsets: dict[Host, float] = {}
    for root in sorted(edges):
        if root in offsets:
            continue
        offsets[root] = 0.0
        reached = [root]
        while True:
            nexts = [
                (-pairs, host, other, offset)
                for host in reached
                for other, (pairs, offset) in edges[host].items()
                if other not in offsets
            ]
            if not nexts:
                break
            _, host, other, offset = min(nexts)
            offsets[other] = offsets[host] + offset
            reached.append(other)
    return {host: round(offset) for host, offset in offsets.items()}
