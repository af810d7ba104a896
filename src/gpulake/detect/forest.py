"""The reference's isolation forest, in a model file of plain numbers.

The file is JSON, so loading one can run nothing. Scores are those of scikit-learn's decision_function.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.detect.grow import LEAF, MOST_SAMPLES, Floats, Tree, grow, scale_rows, standardise

FORMAT = "gpulake isolation forest 1"
TREES = 100
CONTAMINATION = 0.05
SEED = 42


@dataclass(frozen=True)
class Forest:
    features: list[str]
    mean: list[float]
    scale: list[float]
    offset: float
    samples_per_tree: int
    trees: list[Tree]

    def decide(self, rows: Floats) -> Floats:
        """Below 0 is an anomaly; the lower, the stranger."""
        scaled = scale_rows(rows, np.asarray(self.mean), np.asarray(self.scale))
        depth = sum((_depths(tree, scaled) for tree in self.trees), np.zeros(len(rows)))
        usual = len(self.trees) * _mean_path(np.array([self.samples_per_tree]))[0]
        return np.asarray(-(2.0 ** (-depth / usual)) - self.offset)

    def to_json(self) -> str:
        document = {"format": FORMAT, **{name: getattr(self, name) for name in _FIELDS}}
        document["trees"] = [vars(tree) for tree in self.trees]
        return json.dumps(document)


_FIELDS = ("features", "mean", "scale", "offset", "samples_per_tree")


def fit(rows: Floats, features: list[str]) -> Forest:
    mean, scale = standardise(rows)
    trees = grow(scale_rows(rows, mean, scale), TREES, SEED)
    unset = Forest(features, mean.tolist(), scale.tolist(), 0.0, min(MOST_SAMPLES, len(rows)), trees)
    # The threshold that flags a twentieth of the days it was fitted on, whatever they are.
    return replace(unset, offset=float(np.percentile(unset.decide(rows), 100 * CONTAMINATION)))


def load(path: Path) -> Forest:
    hint = "remove it; the next build fits a new one"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise InputError(f"{path} has format {document['format']!r}", hint)
        forest = Forest(
            **{name: document[name] for name in _FIELDS}, trees=[Tree(**tree) for tree in document["trees"]]
        )
        _check(forest)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no model file: {error}", hint) from error
    except OSError as error:
        raise InputError(f"cannot read the model {path}: {error}", "check the path") from error
    return forest


def _check(forest: Forest) -> None:
    """A model file comes from a disk: it must not be able to loop or to reach outside its arrays."""
    if not {len(forest.features), len(forest.mean), len(forest.scale)} == {len(forest.features)} or not forest.trees:
        raise ValueError("features, means and scales that do not fit, or no trees")
    if not isinstance(forest.offset, float) or not isinstance(forest.samples_per_tree, int):
        raise ValueError("an offset or a number of samples that is no number")
    for tree in forest.trees:
        size = len(tree.left)
        if {len(tree.right), len(tree.feature), len(tree.threshold), len(tree.samples)} != {size} or not size:
            raise ValueError("a tree whose arrays differ in length")
        for node in range(size):
            children = (tree.left[node], tree.right[node])
            is_leaf = children == (LEAF, LEAF)
            if not is_leaf and not all(node < child < size for child in children):
                raise ValueError("a tree whose children do not follow their parent")
            if not is_leaf and not 0 <= tree.feature[node] < len(forest.features):
                raise ValueError("a tree that asks for a feature that is not there")


def _depths(tree: Tree, rows: NDArray[np.float32]) -> Floats:
    """How deep each row falls, and how much deeper it would fall if its leaf were split on."""
    left, right = np.array(tree.left), np.array(tree.right)
    feature, threshold = np.array(tree.feature), np.array(tree.threshold)
    node = np.zeros(len(rows), dtype=np.int64)
    depth = np.zeros(len(rows))
    every = np.arange(len(rows))
    while (inner := left[node] != LEAF).any():
        goes_left = rows[every, np.where(inner, feature[node], 0)] <= threshold[node]
        node = np.where(inner, np.where(goes_left, left[node], right[node]), node)
        depth += inner
    return np.asarray(depth + _mean_path(np.array(tree.samples)[node]))


def _mean_path(samples: NDArray[np.int64]) -> Floats:
    """Mean depth of an unsuccessful search in a binary tree of that many rows (Liu et al., 2008)."""
    count = samples.astype(np.float64)
    long = np.maximum(count, 3)
    path = 2.0 * (np.log(long - 1.0) + np.euler_gamma) - 2.0 * (long - 1.0) / long
    return np.where(count <= 1, 0.0, np.where(count == 2, 1.0, path))
