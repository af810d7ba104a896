"""The measures agree with slow ones, and cannot be had by chance or by saying the same of everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.scoring.curves import auc_pr, best_f1, events, vus_pr
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve

from gpulake.detect.series import Bools, Floats


def slow_vus_pr(is_labelled: Bools, score: Floats, buffers: tuple[int, ...]) -> float:
    """By the definition, threshold by threshold and event by event."""
    areas = []
    begins, ends = events(is_labelled)
    for length in buffers:
        weights = [0.0] * len(score)
        for place in range(len(score)):
            for begin, end in zip(begins, ends, strict=True):
                away = max(begin - place, place - (end - 1), 0)
                if away == 0:
                    weights[place] = 1.0
                elif away <= length // 2:
                    weights[place] = max(weights[place], math.sqrt(1 - away / length))
        total = (sum(is_labelled) + sum(weights)) / 2
        area, before = 0.0, 0.0
        for threshold in sorted(set(score.tolist()), reverse=True):
            named = [place for place in range(len(score)) if score[place] >= threshold]
            found = sum(weights[place] for place in named)
            half = length // 2
            touched = sum(
                any(begin - half <= place < end + half for place in named)
                for begin, end in zip(begins, ends, strict=True)
            )
            recall = min(found / total, 1.0) * touched / len(begins)
            area += (recall - before) * found / len(named)
            before = recall
        areas.append(area)
    return sum(areas) / len(areas)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Bools, Floats]:
    labels = draw(st.lists(st.booleans(), min_size=1, max_size=60).filter(any))
    score = draw(st.lists(st.integers(0, 8), min_size=len(labels), max_size=len(labels)))
    return np.array(labels), np.array(score, dtype=np.float64)


@pytest.mark.slow
@given(case=labelled())
def test_the_volume_is_that_of_the_definition(case: tuple[Bools, Floats]) -> None:
    buffers = (0, 3, 10)
    assert vus_pr(*case, buffers) == pytest.approx(slow_vus_pr(*case, buffers))


@given(case=labelled())
def test_without_a_buffer_the_area_and_the_best_f1_are_those_of_scikit_learn(case: tuple[Bools, Floats]) -> None:
    assert auc_pr(*case) == pytest.approx(average_precision_score(*case))
    precision, recall, _ = precision_recall_curve(*case)
    theirs = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    assert best_f1(*case) == pytest.approx(theirs.max())


def a_day_with_three_events() -> Bools:
    is_labelled = np.zeros(5000, dtype=np.bool_)
    for begin in (1000, 2500, 4000):
        is_labelled[begin : begin + 50] = True
    return is_labelled


def test_a_perfect_score_gets_nearly_everything() -> None:
    is_labelled = a_day_with_three_events()
    perfect = is_labelled.astype(np.float64)
    assert auc_pr(is_labelled, perfect) == 1.0
    assert best_f1(is_labelled, perfect) == 1.0
    assert vus_pr(is_labelled, perfect) > 0.7


@pytest.mark.parametrize("score", [np.zeros(5000), np.ones(5000), np.random.default_rng(1).random(5000)])
def test_chance_and_constants_come_out_low(score: Floats) -> None:
    is_labelled = a_day_with_three_events()
    assert auc_pr(is_labelled, score) < 0.05
    assert vus_pr(is_labelled, score) < 0.08
    assert best_f1(is_labelled, score) < 0.1


def test_nothing_labelled_is_not_zero() -> None:
    nothing = np.zeros(10, dtype=np.bool_)
    assert math.isnan(vus_pr(nothing, np.ones(10)))
    assert math.isnan(auc_pr(nothing, np.ones(10)))
    assert math.isnan(best_f1(nothing, np.ones(10)))
