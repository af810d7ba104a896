"""Grows the reference's isolation forest, tree by tree, from the same seeds and draws as scikit-learn's.

scikit-learn takes longer to import than a small lake takes to land and build, and is by far the largest thing that
scoring would need. Its tests, and those that compare every tree with it, are a development dependency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
MOST_SAMPLES = 256
LEAF = -1
# What scikit-learn writes where a leaf has no feature and no threshold.
UNDEFINED = -2
# A feature whose values lie closer together than this does not vary.
CONSTANT = np.float32(1e-7)
LARGEST_SEED = np.iinfo(np.int32).max
LARGEST_DRAW = 0x7FFFFFFF
WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Tree:
    """Arrays by node: a leaf has child -1; others send value <= threshold of their feature to the left."""

    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)


def standardise(rows: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of each column; a column that does not vary has a deviation of 1."""
    count = len(rows)
    mean = rows.sum(axis=0) / count
    away = rows - mean
    variance = ((away**2).sum(axis=0) - away.sum(axis=0) ** 2 / count) / count
    epsilon = np.finfo(np.float64).eps
    is_constant = variance <= count * epsilon * variance + (count * mean * epsilon) ** 2
    return mean, np.where(is_constant, 1.0, np.sqrt(variance))


def scale_rows(rows: Floats, mean: Floats, scale: Floats) -> Singles:
    """Single precision, in which trees grow: in double, a row at a threshold would go the other way."""
    return ((rows - mean) / scale).astype(np.float32)


def grow(rows: Singles, trees: int, seed: int) -> list[Tree]:
    samples = min(MOST_SAMPLES, len(rows))
    most_depth = math.ceil(math.log2(max(samples, 2)))
    grown = []
    for tree_seed in np.random.RandomState(seed).randint(LARGEST_SEED, size=trees):
        own_seed = np.random.RandomState(tree_seed).randint(LARGEST_SEED)
        draws = Draws(int(np.random.RandomState(own_seed).randint(0, LARGEST_DRAW)))
        chosen = _sample(len(rows), samples, np.random.RandomState(tree_seed))
        grown.append(_Growth(rows[chosen], most_depth, draws).tree())
    return grown


@dataclass
class Draws:
    """Marsaglia's xorshift of 32 bits."""

    state: int

    def __post_init__(self) -> None:
        self.state = self.state or 1

    def integer(self, low: int, high: int) -> int:
        return low + self._next() % (high - low)

    def uniform(self, low: float, high: float) -> float:
        return (high - low) * float(self._next()) / float(LARGEST_DRAW) + low

    def _next(self) -> int:
        self.state ^= (self.state << 13) & WORD
        self.state ^= self.state >> 17
        self.state ^= (self.state << 5) & WORD
        return self.state % (LARGEST_DRAW + 1)


def _sample(count: int, samples: int, random: np.random.RandomState) -> NDArray[np.int64]:
    """Rows without repetition; how they are drawn depends on how many of all they are."""
    if samples < 0.01 * count:
        chosen: dict[int, None] = {}
        while len(chosen) < samples:
            chosen.setdefault(int(random.randint(count)))
        return np.array(list(chosen))
    if samples < 0.99 * count:
        return random.permutation(count)[:samples]
    kept = list(range(samples))
    for newcomer in range(samples, count):
        place = int(random.randint(0, newcomer + 1))
        if place < samples:
            kept[place] = newcomer
    return np.array(kept)


class _Growth:
    """One tree. Features known not to vary in a node do not vary below it, and are not drawn again."""

    def __init__(self, rows: Singles, most_depth: int, draws: Draws) -> None:
        self.rows = rows
        self.most_depth = most_depth
        self.draws = draws
        self.features = list(range(rows.shape[1]))
        self.constants = [0] * rows.shape[1]

    def tree(self) -> Tree:
        tree = Tree()
        pending: list[tuple[NDArray[np.int64], int, int, list[int], int]] = [
            (np.arange(len(self.rows)), 0, LEAF, tree.left, 0)
        ]
        while pending:
            members, depth, parent, side, known = pending.pop()
            split, constant = None, known
            if depth < self.most_depth and len(members) >= 2:
                split, constant = self._split(self.rows[members], known)
            node = len(tree.left)
            if parent != LEAF:
                side[parent] = node
            tree.left.append(LEAF)
            tree.right.append(LEAF)
            tree.samples.append(len(members))
            tree.feature.append(split[0] if split else UNDEFINED)
            tree.threshold.append(split[1] if split else float(UNDEFINED))
            if split:
                # A plain float would be rounded to the values' single precision first.
                goes_left = self.rows[members, split[0]] <= np.float64(split[1])
                pending.append((members[~goes_left], depth + 1, node, tree.right, constant))
                pending.append((members[goes_left], depth + 1, node, tree.left, constant))
        return tree

    def _split(self, rows: Singles, known: int) -> tuple[tuple[int, float] | None, int]:
        """A feature that varies, and a threshold between its least and its most; how many features are constant."""
        features = self.features
        rest, found, drawn, visited = len(features), 0, 0, 0
        split = None
        while rest > known + found and (visited < 1 or visited <= found + drawn):
            visited += 1
            place = self.draws.integer(drawn, rest - found)
            if place < known:
                features[drawn], features[place] = features[place], features[drawn]
                drawn += 1
                continue
            place += found
            feature = features[place]
            least, most = rows[:, feature].min(), rows[:, feature].max()
            if most <= least + CONSTANT:
                features[place], features[known + found] = features[known + found], feature
                found += 1
                continue
            rest -= 1
            features[rest], features[place] = features[place], features[rest]
            threshold = self.draws.uniform(float(least), float(most))
            split = (feature, float(least) if threshold == float(most) else threshold)
        features[:known] = self.constants[:known]
        self.constants[known : known + found] = features[known : known + found]
        return split, known + found
