"""NAB's score: early is better than late, late than never, and alarms for nothing cost."""

from __future__ import annotations

import numpy as np
import pytest
from bench.scoring import nab
from bench.scoring.alarms import AlarmCounts, count_alarms

from gpulake.detect.series import Bools

MINUTE_MS = 60_000
COUNT, BEGIN, END = 2000, 800, 1000
POINTS = nab.worth(COUNT, np.array([BEGIN]), np.array([END]))


def flagged(*places: int) -> Bools:
    flags = np.zeros(COUNT, dtype=np.bool_)
    flags[list(places)] = True
    return flags


def normal(*places: int) -> float:
    return nab.normalised(nab.gained(POINTS, flagged(*places), MINUTE_MS), 1)


def test_silence_is_worth_nothing_and_the_first_point_of_a_window_everything() -> None:
    assert normal() == 0.0
    assert normal(BEGIN) == pytest.approx(100.0)


def test_the_earlier_the_better() -> None:
    values = [normal(place) for place in (BEGIN, 850, 900, 950, 999)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 49.0  # at the very end: found, and of no use


def test_a_window_is_found_once() -> None:
    assert normal(BEGIN, 900) == normal(BEGIN)


def test_a_false_alarm_costs_the_profiles_weight_and_less_right_after_a_window() -> None:
    weight = 100 * nab.FALSE_ALARM / 2
    assert normal(100) == pytest.approx(-weight)
    assert normal(1900) == pytest.approx(-weight)
    assert -weight < normal(END + 1) < 0.0


def test_an_alarm_that_never_ends_finds_nothing() -> None:
    assert normal(*range(COUNT)) < 0.0


def test_the_best_threshold_is_looked_for() -> None:
    score = np.zeros(COUNT)
    score[BEGIN], score[100] = 0.9, 0.8
    assert nab.at_best([POINTS], [score], [MINUTE_MS]) == pytest.approx(100.0)


def test_what_an_operator_is_reported() -> None:
    is_labelled = np.zeros(COUNT, dtype=np.bool_)
    is_labelled[BEGIN:END] = True
    is_labelled[1500:1510] = True
    found = count_alarms(is_labelled, flagged(100, 101, 150, 300, 810, 811), MINUTE_MS)
    assert found == AlarmCounts(2, 1, 2, COUNT / 1440, (10 * MINUTE_MS,))
