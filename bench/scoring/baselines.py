"""Further methods for comparison: an exact matrix profile, and detectors of PyOD where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from bench.scoring.methods import METHODS
from bench.scoring.sets import LabelledSeries
from gpulake.detect.series import Floats

Scorer = Callable[[LabelledSeries], Floats]
PYOD = ("ecod", "copod", "hbos", "knn")
WINDOW = 30
ROWS_AT_ONCE = 1024
LEAST_SPREAD = 1e-6  # of a window; below it the window is constant


def matrix_profile(case: LabelledSeries) -> Floats:
    """The largest distance, over the metrics, of the window that ends at a point to its nearest earlier window.

    Earlier windows are those of the part to learn from; where there is none, those that end before the block of rows.
    """
    values = np.nan_to_num(case.series.values)
    count, begin = len(values), case.scored_from
    most = np.zeros(count - begin)
    for column in values.T:
        windows = _normal(column.astype(np.float32))
        ends = np.arange(len(windows)) + WINDOW - 1
        for first in range(max(begin, 2 * WINDOW), count, ROWS_AT_ONCE):
            last = min(count, first + ROWS_AT_ONCE)
            known = int(np.searchsorted(ends, begin if case.has_split else first - WINDOW))
            asked = windows[first - WINDOW + 1 : last - WINDOW + 1]
            nearest = (asked @ windows[:known].T).max(axis=1) if known else np.ones(len(asked))
            here = slice(first - begin, last - begin)
            most[here] = np.maximum(most[here], np.sqrt(np.maximum(1.0 - nearest, 0.0)))
    return most


def _normal(column: Floats) -> Floats:
    """Every window with mean 0 and length 1. Constant windows equal each other and nothing else."""
    windows = np.lib.stride_tricks.sliding_window_view(column, WINDOW)
    centred = windows - windows.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    is_constant = length <= LEAST_SPREAD * np.sqrt(WINDOW)
    scaled = np.where(is_constant, 0.0, centred / np.where(is_constant, 1.0, length))
    return np.asarray(np.hstack([scaled, is_constant]), dtype=np.float32)


def _pyod(name: str) -> Scorer:
    """Fitted on the part to learn from, or on all points where there is none."""

    def score(case: LabelledSeries) -> Floats:
        model = getattr(import_module(f"pyod.models.{name}"), name.upper())()
        values = np.nan_to_num(case.series.values)
        model.fit(values[: case.scored_from] if case.has_split else values)
        return np.asarray(np.nan_to_num(model.decision_function(values[case.scored_from :])))

    return score


def _of_method(name: str) -> Scorer:
    return lambda case: METHODS[name](case).score


def baselines() -> dict[str, Scorer]:
    """All that can be run here."""
    own = {"z_score": _of_method("z_score"), "isolation_forest": _of_method("isolation_forest")}
    theirs = {f"pyod_{name}": _pyod(name) for name in PYOD} if find_spec("pyod") else {}
    return {**own, "matrix_profile": matrix_profile, **theirs}
