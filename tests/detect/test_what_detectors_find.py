"""Each detector finds what it is for, soon, and names the metric."""

from __future__ import annotations

import numpy as np

from gpulake.detect.alarms import alarms_of
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.detectors.drift import Drift
from gpulake.detect.detectors.excess import Excess
from gpulake.detect.detectors.flatline import Flatline
from gpulake.detect.detectors.saturation import Saturation
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.detectors.spell import Spell
from gpulake.detect.detectors.surprise import Surprise
from gpulake.detect.series import Detector, Floats, Series

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MONDAY_MS = 1_767_571_200_000


def noise(count: int, metrics: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(50, 1, size=(count, metrics))


def series(values: Floats, interval_ms: int = MINUTE_MS, names: str = "abcdefgh") -> Series:
    times = MONDAY_MS + np.arange(len(values), dtype=np.int64) * interval_ms
    return Series("node-1", tuple(names[: values.shape[1]]), times, values, interval_ms)


def found(detector: Detector, given: Series) -> list[tuple[int, str]]:
    """At which point each alarm began, and what carries it most."""
    alarms = alarms_of(given, detector.score(given))
    return [((alarm.begin_ms - int(given.times_ms[0])) // given.interval_ms, alarm.carriers[0]) for alarm in alarms]


def only(detector: Detector, given: Series) -> tuple[int, str]:
    (alarm,) = [each for each in found(detector, given) if each[0] >= 600]
    return alarm


def test_what_used_to_move_and_stands_still_is_found() -> None:
    values = noise(1000)
    values[700:, 0] = values[700, 0]
    begin, metric = only(Flatline(), series(values))
    assert metric == "a"
    assert 700 <= begin <= 712


def test_what_often_stands_still_is_left_alone() -> None:
    values = np.repeat(noise(50), 20, axis=0)
    assert found(Flatline(), series(values)) == []


def test_a_counter_that_bursts_is_found_and_one_that_begins_anew_is_not() -> None:
    values = np.cumsum(np.random.default_rng(1).poisson(0.05, size=(1000, 2)), axis=0).astype(np.float64)
    values[400:, 1] -= values[400, 1]
    values[700:, 0] += np.minimum(np.arange(300), 10) * 5
    begin, metric = only(Burst(), series(values))
    assert metric == "a"
    assert 700 <= begin <= 703
    assert all(place >= 600 for place, _ in found(Burst(), series(values)))


def test_the_first_errors_of_a_counter_that_stood_at_zero_are_found() -> None:
    values = np.zeros((1000, 1))
    values[700:] = 8
    assert found(Burst(), series(values)) == [(700, "a")]


def test_saturation_is_reported_before_it_is_full() -> None:
    values = noise(1000, 1) / 100
    values[600:900, 0] += np.linspace(0, 0.6, 300)
    values[900:, 0] = 1.0
    given = Series("node-1", ("memory_used_ratio",), series(values).times_ms, np.minimum(values, 1.0), MINUTE_MS)
    scores = Saturation().score(given)
    first = int(np.flatnonzero(scores.is_flagged)[0])
    full = int(np.flatnonzero(given.values[:, 0] >= 1.0)[0])
    assert 30 <= full - first <= 180


def test_without_a_limit_nothing_fills_up() -> None:
    values = np.linspace(0, 1, 1000)[:, None]
    assert found(Saturation(), series(values)) == []
    assert found(Saturation({"a": 1.0}), series(values)) != []


def weeks(count: int, seed: int = 0) -> Floats:
    """Hours of a cluster that works on weekdays, and grows a little."""
    hours = np.arange(count * 168)
    is_work = (hours // 24 % 7 < 5) & (hours % 24 >= 8) & (hours % 24 < 20)
    drawn = np.random.default_rng(seed).normal(size=len(hours))
    return (30 + 40 * is_work + hours / 168 + drawn)[:, None]


def test_an_hour_unlike_the_same_hour_of_other_weeks_is_found() -> None:
    values = weeks(8)
    quiet = 7 * 168 + 24 + 10  # a Tuesday at ten that is as quiet as any night
    values[quiet : quiet + 3] -= 40
    alarms = [each for each in found(Seasonal(), series(values, HOUR_MS)) if each[0] > 4 * 168]
    assert alarms == [(quiet, "a")]
    scores = Seasonal().score(series(values, HOUR_MS))
    assert abs(scores.expected[quiet, 0] - 77) < 4
    assert scores.low[quiet, 0] < scores.expected[quiet, 0] < scores.high[quiet, 0]


def test_hours_that_were_hardly_observed_are_not_judged() -> None:
    given = series(np.repeat(weeks(5), 6, axis=0), HOUR_MS // 6)
    last = 4 * 168 * 6 + 24 * 6
    kept = np.ones(len(given), dtype=np.bool_)
    kept[last : last + 60] = False
    kept[last + 30] = True  # one look in ten hours
    values = given.values.copy()
    values[last + 30] = 0.0
    thin = Series("node-1", ("a",), given.times_ms[kept], values[kept], given.interval_ms)
    place = int(np.flatnonzero(thin.times_ms == given.times_ms[last + 30])[0])
    assert not Seasonal().score(thin).is_flagged[place]


def test_days_are_held_against_the_same_weekday() -> None:
    values = weeks(16).reshape(-1, 24).mean(axis=1, keepdims=True)
    values[100] = 5.0
    assert found(Seasonal(), series(values, DAY_MS))[-1] == (100, "a")


def test_what_breaks_a_common_rhythm_is_a_surprise_although_each_value_is_usual() -> None:
    rhythm = 10 * np.sin(np.arange(2000) / 40)
    values = noise(2000, 5) + rhythm[:, None]
    values[1500:1540, 3] = 50 - rhythm[1500:1540] + noise(40, 1)[:, 0] - 50
    begin, metric = only(Surprise(), series(values))
    assert metric == "d"
    assert 1500 <= begin <= 1520


def test_three_points_are_a_surprise_and_hours_later_so_are_the_next_three() -> None:
    values = noise(4 * 1440, 6)
    for begin in (4000, 4400):
        values[begin : begin + 3, 1:3] += 25
    scores = Surprise().score(series(values))
    flagged = np.flatnonzero(scores.is_flagged)
    flagged = flagged[flagged >= 1440]
    assert set(flagged[flagged < 4200]) >= {4000, 4001, 4002}
    assert set(flagged[flagged >= 4200]) >= {4400, 4401, 4402}
    assert len(flagged) < 40  # it does not last for hours after a large value


def test_a_shift_too_small_for_any_point_alone_is_found_while_it_lasts() -> None:
    values = noise(600, 1)
    values[300:400] += 1.2
    scores = Drift().score(series(values))
    flagged = np.flatnonzero(scores.is_flagged)
    assert 305 <= flagged[0] <= 340
    assert 395 <= flagged[-1] <= 440
    assert len(found(Drift(), series(values))) == 1
    assert not Drift(side="low").score(series(values)).is_flagged[:400].any()


def test_an_outlier_is_no_drift() -> None:
    values = noise(600, 1)
    values[300] += 1e6
    assert not Drift().score(series(values)).is_flagged[:310].any()


def counts(share: float, hours: int = 400, of: int = 12, seed: int = 0) -> Floats:
    drawn = np.random.default_rng(seed).binomial(of, share, size=hours)
    return np.column_stack([drawn, np.full(hours, of)]).astype(np.float64)


def test_more_failures_than_usual_are_found_and_more_jobs_are_not() -> None:
    values = counts(0.15)
    values[300:304, 0] = 10
    ((begin, metric),) = found(Excess(), series(values, 3_600_000))
    assert metric == "a"
    assert 300 <= begin <= 302
    busy = counts(0.15)
    busy[300:304] *= 20  # as many times more failures as jobs
    assert found(Excess(), series(busy, 3_600_000)) == []


def test_the_expected_count_is_the_past_share_of_what_there_was() -> None:
    values = np.column_stack([np.full(100, 3.0), np.full(100, 12.0)])
    expected = Excess(window_points=4).score(series(values, 3_600_000)).expected
    # Before the last point and its window were 96 points: 288 of 1152, and one of two that were not there.
    assert expected[-1, 0] == 12 * (288 + 1) / (1152 + 2)


def test_a_few_weeks_of_days_are_enough_where_deviations_are_asked_for() -> None:
    values = weeks(4).reshape(-1, 24).mean(axis=1, keepdims=True)
    values[25] = 5.0
    given = series(values, DAY_MS)
    assert not Seasonal().score(given).is_flagged.any()
    assert found(Seasonal(least_points=14, least_deviations=5.0), given) == [(25, "a")]


def test_an_hour_more_or_less_in_spring_makes_no_other_weekday() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0] * 12)[:, None]
    given = series(values, DAY_MS)
    hours = np.where(np.arange(len(values)) >= 40, -3_600_000, 0)
    spring = Series(given.subject, given.metrics, given.times_ms + hours, values, DAY_MS)
    np.testing.assert_array_equal(Seasonal().score(spring).expected, Seasonal().score(given).expected)


def test_a_trend_through_a_single_point_is_none() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(400, 3)) * 1e6 + 1e9
    values[200:] += 1e12
    values[random.random(values.shape) < 0.97] = np.nan
    assert not Saturation(limits={"a": 1e15}).score(series(values)).is_flagged.any()


def test_two_days_in_a_row_are_found_of_which_neither_would_tell() -> None:
    values = noise(60, 2)
    values[40, 1] = 55.5
    assert found(Spell(), series(values, DAY_MS)) == []
    values[41, 1] = 55.5
    assert found(Spell(), series(values, DAY_MS)) == [(41, "b")]
    values[41, 1] = 44.5
    assert found(Spell(), series(values, DAY_MS)) == []


def test_a_weekday_that_always_differs_is_usual_once_it_is_known() -> None:
    values = noise(84, 1)
    values[5::7] += 8
    assert [begin for begin, _ in found(Spell(), series(values, DAY_MS)) if begin > 28] == []
    values[82, 0] -= 16
    assert found(Spell(), series(values, DAY_MS))[-1] == (82, "a")


def test_the_waves_of_a_short_past_ask_for_no_more_than_they_may() -> None:
    values = noise(200, 1)
    values[70:90, 0] += 1.5
    values[150:, 0] += 2
    assert found(Drift(), series(values)) == []
    assert found(Drift(most_sum=20.0), series(values)) == [(173, "a")]
