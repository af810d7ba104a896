"""Run times foretold from the past, and from nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.replay.predictions import (
    EVERYBODY,
    GROUP,
    NO_GROUP,
    NOTHING,
    REQUEST,
    USER,
    CalibrationRow,
    Predictions,
    RunningMedian,
    Tasks,
    calibration,
    predict,
    predicted_seconds,
    score_durations,
    scores,
)

ROW = st.tuples(
    st.integers(0, 30),  # submitted
    st.integers(-3, 20),  # ended, seconds later
    st.integers(0, 9),  # ran
    st.integers(1, 3),  # instances
    st.integers(0, 2),  # user
    st.integers(NO_GROUP, 2),  # group
    st.integers(0, 1),  # request
)


def tasks_of(rows: list[tuple[int, ...]]) -> Tasks:
    submitted, later, ran, instances, user, group, request = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    return Tasks(
        submitted=submitted.astype(float),
        ended=(submitted + later).astype(float),
        seconds=ran.astype(float),
        instances=instances,
        user=user,
        group=group,
        request=group * 10 + request,
    )


def naive(tasks: Tasks, place: int) -> tuple[float, float, float, int, int]:
    """Looks at everything again for every task."""
    ends = np.maximum(tasks.ended, tasks.submitted)
    past = [other for other in np.argsort(ends, kind="stable") if ends[other] < tasks.submitted[place]]
    if not past:
        return np.nan, np.nan, np.nan, NOTHING, 0

    def of(name: str, last: int | None = None) -> list[float]:
        column = getattr(tasks, name)
        runs = [tasks.seconds[other] for other in past if column[other] == column[place]]
        return runs if last is None else runs[-last:]

    overall = median(tasks.seconds[other] for other in past)
    own = of("user")
    user = median(own) if own else overall
    if tasks.group[place] != NO_GROUP and of("group"):
        same = of("request", 5)
        if same:
            return median(same), user, overall, REQUEST, len(of("group"))
        return median(of("group", 5)), user, overall, GROUP, len(of("group"))
    return user, user, overall, USER if own else EVERYBODY, 0


def rows_of(reported: Predictions) -> list[tuple[Any, ...]]:
    return list(zip(*(getattr(reported, field.name).tolist() for field in fields(reported)), strict=True))


@given(st.lists(ROW, max_size=40))
def test_a_walk_through_time_tells_what_looking_at_everything_would(rows: list[tuple[int, ...]]) -> None:
    tasks = tasks_of(rows)
    expected = [naive(tasks, place) for place in range(len(rows))]
    np.testing.assert_allclose(
        np.array(rows_of(predict(tasks))).reshape(-1, 5), np.array(expected).reshape(-1, 5), equal_nan=True
    )


@given(st.lists(ROW, min_size=1, max_size=40), st.integers(0, 30), st.randoms(use_true_random=False))
def test_whatever_the_future_brings_the_prediction_stays(rows: list[tuple[int, ...]], now: int, dice: Any) -> None:
    tasks = tasks_of(rows)
    is_future = np.maximum(tasks.ended, tasks.submitted) >= now
    shuffled = tasks.seconds[is_future].tolist()
    dice.shuffle(shuffled)
    seconds = tasks.seconds.copy()
    seconds[is_future] = [value + dice.randint(0, 99) for value in shuffled]
    ended = np.where(is_future, tasks.ended + dice.randint(0, 50), tasks.ended)
    is_asked = tasks.submitted <= now
    before, after = predict(tasks), predict(replace(tasks, seconds=seconds, ended=ended))
    reported = [row for row, asked in zip(rows_of(before), is_asked, strict=True) if asked]
    reported_again = [row for row, asked in zip(rows_of(after), is_asked, strict=True) if asked]
    np.testing.assert_array_equal(np.array(reported), np.array(reported_again))


def test_a_run_that_ends_as_another_is_submitted_tells_nothing_yet() -> None:
    tasks = tasks_of([(0, 5, 5, 1, 0, 0, 0), (5, 5, 5, 1, 0, 0, 0), (6, 5, 5, 1, 0, 0, 0)])
    assert predict(tasks).basis.tolist() == [NOTHING, NOTHING, REQUEST]


@given(st.lists(st.integers(0, 20).map(float), min_size=1))
def test_a_running_median_is_the_median_of_all_that_came(values: list[float]) -> None:
    running = RunningMedian()
    for count, value in enumerate(values, 1):
        running.add(value)
        assert running.value == median(values[:count])


def test_scores_count_tasks_and_their_instances() -> None:
    tasks = tasks_of([(0, 1, 100, 1, 0, 0, 0), (10, 1, 120, 3, 0, 0, 0), (20, 1, 0, 1, 1, NO_GROUP, 0)])
    found = {(score.method, score.past_runs): score for score in scores(tasks, predict(tasks))}
    every = found["recurrence", "all"]
    assert (every.tasks, every.instances) == (2, 4)
    assert (every.within_quarter_ratio, every.within_quarter_instances_ratio) == (0.5, 0.75)
    assert every.from_group_ratio == 0.5
    assert every.median_log_error == pytest.approx((np.log(1.2) + np.log(110)) / 2)
    assert found["recurrence", "10 and more"].within_quarter_ratio is None


def test_recurrence_tells_more_than_the_user_and_the_user_more_than_nothing(shared_lake: Config) -> None:
    with Lake(shared_lake).reading() as reader:
        found = {score.method: score for score in score_durations(reader, "synth") if score.past_runs == "5 to 9"}
    errors = [found[method].median_log_error or 0 for method in ("recurrence", "user", "everybody")]
    assert found["recurrence"].tasks > 10
    assert errors[0] < errors[1] < errors[2]


def test_calibration_compares_what_was_predicted_with_what_such_tasks_took() -> None:
    tasks = tasks_of(
        [(0, 1, 50, 1, 0, 0, 0), (10, 1, 40, 1, 0, 0, 0), (20, 1, 700, 1, 0, 0, 0), (30, 1, 46, 1, 0, 0, 0)]
    )
    assert predicted_seconds(tasks)[1:].tolist() == [50.0, 45.0, 50.0]
    (row,) = calibration(tasks, predict(tasks))
    assert row == CalibrationRow("1 min", 3, 50.0, 46.0, 2 / 3, 2 / 3)
