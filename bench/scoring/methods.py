"""The methods that are compared: our default detector, the reference's forest, a z-score and chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.scoring.sets import LabelledSeries
from gpulake.detect.detectors.surprise import Surprise
from gpulake.detect.forest import fit
from gpulake.detect.series import Bools, Floats
from gpulake.detect.trailing import trailing_means

UNUSUAL = 3.0
SELDOM = 0.01


class Judgement(NamedTuple):
    """Of the points that are scored."""

    score: Floats
    is_flagged: Bools


def ours(case: LabelledSeries) -> Judgement:
    scores = Surprise().score(case.series)
    return Judgement(scores.score[case.scored_from :], scores.is_flagged[case.scored_from :])


def reference_forest(case: LabelledSeries) -> Judgement:
    """As the reference does: fitted on what it scores, a twentieth of it flagged."""
    values = np.nan_to_num(case.series.values)
    begin = case.scored_from if case.has_split else 0
    decided = fit(values[begin:], list(case.series.metrics)).decide(values[begin:])[case.scored_from - begin :]
    return Judgement(-decided, decided < 0)


def z_score(case: LabelledSeries) -> Judgement:
    """The metric that is furthest from its mean so far, in deviations so far."""
    values = case.series.values
    mean = trailing_means(values, None)
    variance = trailing_means(values**2, None) - mean**2
    spread = np.sqrt(np.maximum(variance, 1e-6 * np.maximum(mean**2, 1e-6)))
    with np.errstate(invalid="ignore"):
        score = np.nan_to_num(np.abs(values - mean) / spread).max(axis=1, initial=0.0)[case.scored_from :]
    return Judgement(score, score > UNUSUAL)


def random(case: LabelledSeries) -> Judgement:
    score = np.random.default_rng(0).random(len(case.series) - case.scored_from)
    return Judgement(score, score > 1 - SELDOM)


METHODS: dict[str, Callable[[LabelledSeries], Judgement]] = {
    "ours": ours,
    "isolation_forest": reference_forest,
    "z_score": z_score,
    "random": random,
}
