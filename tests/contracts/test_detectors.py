"""What holds for every detector: it judges a point by its past, says so in the same words, and survives any series."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.core.errors import InputError
from gpulake.detect import detectors
from gpulake.detect.series import Detector, Floats, Ints, Scores, Series
from gpulake.detect.watches import WATCHES

MINUTE_MS = 60_000


def every() -> dict[str, type[Detector]]:
    """The one class of each file in detect/detectors that has a method `score`."""
    modules = [import_module(f"{detectors.__name__}.{each.name}") for each in iter_modules(detectors.__path__)]
    return {
        module.__name__.rpartition(".")[2]: kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and hasattr(kind, "score")
    }


DETECTORS = every()
EVERY = pytest.mark.parametrize("name", DETECTORS)


def series(values: Floats, times_ms: Ints | None = None, interval_ms: int = MINUTE_MS) -> Series:
    times = np.arange(len(values), dtype=np.int64) * interval_ms if times_ms is None else times_ms
    return Series("any", tuple(f"metric_{place}" for place in range(values.shape[1])), times, values, interval_ms)


def noisy(count: int, metrics: int = 5, seed: int = 0) -> Floats:
    drawn = np.random.default_rng(seed).normal(size=(count, metrics))
    return drawn + 10 + np.sin(np.arange(count) / 50)[:, None]


def score(name: str, given: Series) -> Scores:
    return DETECTORS[name]().score(given)


def check(scores: Scores, given: Series) -> None:
    """The form of an answer."""
    count, metrics = given.values.shape
    for column in (scores.score, scores.threshold, scores.is_flagged, scores.is_ready):
        assert column.shape == (count,)
    for table in (scores.expected, scores.low, scores.high, scores.shares):
        assert table.shape == (count, metrics)
    assert ((scores.score >= 0) & (scores.score <= 1)).all()
    assert not np.isnan(scores.threshold).any()
    assert (scores.is_ready | ~scores.is_flagged).all()
    assert (scores.score[scores.is_flagged] >= scores.threshold[scores.is_flagged] - 1e-9).all()
    assert not np.isnan(scores.shares).any()
    total = scores.shares.sum(axis=1)
    assert (np.isclose(total, 1) | (total == 0)).all()
    with np.errstate(invalid="ignore"):
        assert not (scores.low > scores.high).any()


def same(some: Scores, others: Scores, count: int) -> None:
    for field in fields(Scores):
        ours, theirs = getattr(some, field.name)[:count], getattr(others, field.name)[:count]
        # Sums in another order differ in their last digits; nothing else may.
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs.astype(np.float64), rtol=1e-6, atol=1e-9, err_msg=field.name
        )


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    """Of any length and shape: noise, steps, spikes, counters, gaps, constants and large numbers."""
    count, metrics = draw(st.integers(0, 400)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = random.normal(size=(count, metrics)) * draw(st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
    values += draw(st.sampled_from([0.0, 1.0, -50.0, 1e9]))
    if draw(st.booleans()):
        values = np.cumsum(np.floor(np.abs(values)), axis=0)
    if count and draw(st.booleans()):
        values[random.integers(count) :, random.integers(metrics)] += draw(st.sampled_from([1e3, -1e3, 1e12]))
    if draw(st.booleans()):
        values[random.random(values.shape) < draw(st.sampled_from([0.05, 0.5, 0.95]))] = np.nan
    if draw(st.booleans()):
        values[:, random.integers(metrics)] = draw(st.sampled_from([np.nan, 0.0, 7.0]))
    interval = draw(st.sampled_from([200, MINUTE_MS, 3_600_000, 86_400_000]))
    steps = np.cumsum(random.choice([1, 1, 1, 1, 1, 30], size=count)) * interval
    return series(values, steps.astype(np.int64), interval)


@pytest.mark.slow
@EVERY
@settings(max_examples=cases(25), suppress_health_check=[HealthCheck.too_slow])
@given(given_series=any_series(), part=st.floats(0, 1), seed=st.integers(0, 99))
def test_what_comes_later_never_changes_what_was_said(name: str, given_series: Series, part: float, seed: int) -> None:
    whole = score(name, given_series)
    check(whole, given_series)
    kept = int(part * len(given_series))
    past = series(given_series.values[:kept], given_series.times_ms[:kept], given_series.interval_ms)
    same(score(name, past), whole, kept)
    changed = given_series.values.copy()
    changed[kept:] = np.random.default_rng(seed).normal(size=changed[kept:].shape) * 1e5
    same(score(name, series(changed, given_series.times_ms, given_series.interval_ms)), whole, kept)


@pytest.mark.slow
@EVERY
def test_the_same_series_gets_the_same_answer(name: str) -> None:
    given_series = series(noisy(500))
    first, second = score(name, given_series), score(name, given_series)
    for field in fields(Scores):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


@EVERY
@pytest.mark.parametrize("count", [0, 1, 2])
def test_next_to_nothing_is_never_flagged(name: str, count: int) -> None:
    scores = score(name, series(noisy(count)))
    check(scores, series(noisy(count)))
    assert not scores.is_flagged.any()
    assert not scores.is_ready.any()


@EVERY
@pytest.mark.parametrize("value", [0.0, 7.0, -1e9, np.nan])
def test_what_never_changes_is_never_flagged(name: str, value: float) -> None:
    given_series = series(np.full((600, 4), value))
    scores = score(name, given_series)
    check(scores, given_series)
    assert not scores.is_flagged.any()


@EVERY
def test_nothing_is_flagged_before_the_stated_history(name: str) -> None:
    values = noisy(600)
    least = DETECTORS[name]().least_points
    values[: least - 1] *= np.where(np.arange(least - 1) % 7 == 0, 1e6, 1.0)[:, None]
    scores = score(name, series(values))
    assert not scores.is_flagged[:least].any()
    assert not scores.is_ready[:least].any()
    assert scores.is_ready[least:].all()


@EVERY
def test_a_metric_that_is_not_measured_changes_nothing_but_its_own_column(name: str) -> None:
    values = noisy(600, 6)
    values[:, 2] = np.nan
    scores = score(name, series(values))
    check(scores, series(values))
    assert (scores.shares[:, 2] == 0).all()


@pytest.mark.slow
@EVERY
def test_zero_is_a_value(name: str) -> None:
    """A shift of the whole series changes no flag: nothing looks at whether a value is 0."""
    if name in ("burst", "saturation", "straggler"):
        pytest.skip("it measures against zero: counters, limits and levels have one")
    values = noisy(800).round(3)
    values[600:620] += 40
    around_zero = values - values[100]
    assert (score(name, series(values)).is_flagged == score(name, series(around_zero)).is_flagged).mean() > 0.99


@pytest.mark.slow
@EVERY
def test_noise_is_seldom_flagged(name: str) -> None:
    days = 7
    scores = score(name, series(noisy(days * 1440, 4, seed=1)))
    flagged = np.flatnonzero(scores.is_flagged)
    alarms = int((np.diff(flagged, prepend=-100) > 60).sum())
    assert alarms <= days


@pytest.mark.parametrize("times", [[0, 0], [60_000, 0]], ids=["twice the same", "backwards"])
def test_times_that_do_not_increase_are_refused(times: list[int]) -> None:
    with pytest.raises(InputError, match="times that do not increase"):
        series(noisy(2), np.array(times, dtype=np.int64))


def test_every_detector_is_named_for_its_file_and_used_by_a_watch() -> None:
    assert {name: kind.__name__.lower() for name, kind in DETECTORS.items()} == {name: name for name in DETECTORS}
    assert {type(WATCHES.get(name)().detector) for name in WATCHES} >= set(DETECTORS.values())
