"""Precision and recall over all thresholds. Points count as they are: none is found for its neighbour."""

from __future__ import annotations

import numpy as np

from gpulake.detect.series import Bools, Floats, Ints

BUFFERS = tuple(range(0, 101, 10))


def events(is_labelled: Bools) -> tuple[Ints, Ints]:
    """Begin and end (exclusive) of each labelled stretch."""
    edges = np.diff(np.concatenate([[0], is_labelled.astype(np.int64), [0]]))
    return np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)


def _by_threshold(weights: Floats, score: Floats) -> tuple[Floats, Ints, Floats]:
    """At every distinct score, the highest first: labelled weight and points at or above it, and the score."""
    order = np.argsort(-score, kind="stable")
    ordered = score[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    return np.cumsum(weights[order])[is_last], np.flatnonzero(is_last) + 1, ordered[is_last]


def auc_pr(is_labelled: Bools, score: Floats) -> float:
    """Average precision. NaN: nothing is labelled."""
    total = int(is_labelled.sum())
    if not total:
        return float("nan")
    found, named, _ = _by_threshold(is_labelled.astype(np.float64), score)
    return float(np.sum(np.diff(found / total, prepend=0.0) * found / named))


def best_f1(is_labelled: Bools, score: Floats) -> float:
    total = int(is_labelled.sum())
    if not total:
        return float("nan")
    found, named, _ = _by_threshold(is_labelled.astype(np.float64), score)
    return float((2 * found / (named + total)).max())


def vus_pr(is_labelled: Bools, score: Floats, buffers: tuple[int, ...] = BUFFERS) -> float:
    """Volume under the surface of range-based precision and recall (Paparrizos et al., 2022), over buffer lengths.

    Points beside an event count for a part, the less the further away; recall is that of points times that of events.
    """
    if not is_labelled.any():
        return float("nan")
    begins, ends = events(is_labelled)
    return float(np.mean([_range_auc_pr(is_labelled, score, begins, ends, length) for length in buffers]))


def _range_auc_pr(is_labelled: Bools, score: Floats, begins: Ints, ends: Ints, length: int) -> float:
    half = length // 2
    weights = softened(is_labelled, length)
    total = (int(is_labelled.sum()) + float(weights.sum())) / 2
    found, named, thresholds = _by_threshold(weights, score)
    spans = zip(np.maximum(begins - half, 0).tolist(), (ends + half).tolist(), strict=True)
    best = np.sort([score[begin:end].max() for begin, end in spans])
    events_found = len(best) - np.searchsorted(best, thresholds, side="left")
    recall = np.minimum(found / total, 1.0) * events_found / len(best)
    return float(np.sum(np.diff(recall, prepend=0.0) * found / named))


def softened(is_labelled: Bools, length: int) -> Floats:
    """Labels that fade on both sides of an event over half the length, as the root of the distance."""
    weights = is_labelled.astype(np.float64)
    begins, ends = events(is_labelled)
    for away in range(1, length // 2 + 1):
        worth = np.sqrt(1.0 - away / length)
        for places in (begins - away, ends - 1 + away):
            inside = places[(places >= 0) & (places < len(weights))]
            weights[inside] = np.maximum(weights[inside], worth)
    return weights
