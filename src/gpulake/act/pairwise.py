"""Finds the faulty nodes of a job by testing small worlds of them, in two rounds.

Round 1 splits the nodes into worlds of two, and one of three if they are odd in number; the members of a world that
fails are suspects. Round 2 pairs each suspect with a good node; one that fails again is faulty. No node is faulty
before some world has passed: a test that always fails says nothing about nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations

World = tuple[str, ...]
Works = Callable[[World], bool]  # True: the nodes work together


@dataclass(frozen=True)
class PairwiseResult:
    faulty: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    worlds: tuple[tuple[World, bool], ...] = ()  # what was tested, in order, and whether it passed


def find_faulty(
    nodes: Sequence[str], test: Works, spares: Sequence[str] = (), tries: int = 1, at_once: int = 1
) -> PairwiseResult:
    """Exact where fewer than half are faulty, and a world fails if and only if one of its nodes is faulty."""
    nodes = tuple(dict.fromkeys(nodes))
    search = _Search(test, tuple(spare for spare in dict.fromkeys(spares) if spare not in nodes), tries, at_once)
    search.first_round(nodes)
    if search.suspects and not search.good:
        search.look_for_good()
    faulty, undecided = search.second_round()
    good = tuple(node for node in nodes if node in search.good)
    return PairwiseResult(
        tuple(node for node in nodes if node in faulty),
        good,
        tuple(node for node in nodes if node in undecided),
        tuple(search.worlds),
    )


@dataclass
class _Search:
    test: Works
    spares: World
    tries: int
    at_once: int
    good: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    worlds: list[tuple[World, bool]] = field(default_factory=list)

    def first_round(self, nodes: World) -> None:
        worlds = [nodes[at : at + 2] for at in range(0, len(nodes) - 1, 2)] or ([nodes] if nodes else [])
        if len(nodes) % 2 and len(nodes) > 1:
            worlds[-1] = nodes[-3:]
        for world, passed in zip(worlds, self._tested(worlds), strict=True):
            (self.good if passed else self.suspects).extend(world)

    def look_for_good(self) -> None:
        """Every world failed: look for good nodes in a world of three, among the spares, and with a single spare."""
        self._look_in(self.suspects[-3:] if len(self.suspects) % 2 else ())
        if not self.good:
            self._look_in(self.spares)
        if not self.good and len(self.spares) == 1:
            self._look_at_the_spare(self.spares[0])

    def _look_in(self, nodes: Sequence[str]) -> None:
        for pair in combinations(nodes[:3], 2):
            if self._tested([pair])[0]:
                self.good.extend(pair)
                self.suspects = [node for node in self.suspects if node not in pair]
                return

    def _look_at_the_spare(self, spare: str) -> None:
        """It may be faulty itself: it is good once it works with one of the suspects."""
        for suspect in self.suspects:
            if self._tested([(suspect, spare)])[0]:
                self.good.extend((suspect, spare))
                self.suspects.remove(suspect)
                return

    def second_round(self) -> tuple[set[str], set[str]]:
        """A node is faulty that fails with a good partner; without partners, that fails alone where another passes."""
        if not self.suspects:
            return set(), set()
        if not self.good:
            alone = dict(zip(self.suspects, self._tested([(node,) for node in self.suspects]), strict=True))
            failed = {node for node, passed in alone.items() if not passed}
            faulty = failed if len(failed) < len(alone) else set()
            return faulty, set(self.suspects) - faulty
        failed = set(self.suspects)
        partners = list(self.good)
        # No node is in two worlds at a time.
        for first in range(0, len(self.suspects), len(partners)):
            some = self.suspects[first : first + len(partners)]
            pairs = [(suspect, partners[at]) for at, suspect in enumerate(some)]
            passed = {pair[0] for pair, is_good in zip(pairs, self._tested(pairs), strict=True) if is_good}
            failed -= passed
            self.good.extend(sorted(passed))
        return failed, set()

    def _tested(self, worlds: Sequence[World]) -> list[bool]:
        with ThreadPoolExecutor(self.at_once) as pool:
            passed = list(pool.map(self._passes, worlds))
        self.worlds.extend(zip(worlds, passed, strict=True))
        return passed

    def _passes(self, world: World) -> bool:
        return any(self.test(world) for _ in range(self.tries))
