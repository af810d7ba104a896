"""From what a detector measures to scores: thresholds come from the series' own past."""

from __future__ import annotations

import numpy as np

from gpulake.detect.alarms import usual_gap
from gpulake.detect.running import blocks, last_means
from gpulake.detect.series import DAY_MS, NEVER, Floats, Scores, Series, as_score
from gpulake.detect.tail import BINS, bins_of, thresholds

MOST_EXCEEDED = 0.05
WEARINESS = 3.0  # by which an alarm raises the threshold of the next one; it wears off within a day or two
NOISE = 1e-9  # of a level: the last digits of a number
LEAST_SPREAD = 1e-100
NORMAL = 1.2533  # makes the mean deviation of a normal distribution its standard deviation

# Of detectors that count in deviations: as many as are told apart, as are worth a score of a half, as the band is wide.
MOST_DEVIATIONS = 1000.0
HALF_DEVIATIONS = 6.0
BAND_DEVIATIONS = 4.0


def own_thresholds(statistic: Floats, exceeded: float) -> Floats:
    """At each point, what that share of the points before its block exceeded."""
    counts = np.zeros(BINS)
    found = np.full(len(statistic), np.inf)
    for begin, end in blocks(len(statistic)):
        found[begin:end] = float(thresholds(counts, exceeded))
        if begin:
            counts += np.bincount(bins_of(statistic[begin:end]), minlength=BINS)
    return found


def wearied(series: Series, statistic: Floats, threshold: Floats, least_points: int) -> Floats:
    """The threshold, raised after each alarm: who calls every hour must have ever more to say. An alarm that lasts is
    held to the threshold as it was."""
    is_candidate = (statistic >= threshold) & ~np.isnan(series.values).all(axis=1)
    gap, fading = usual_gap(series.interval_ms), series.interval_ms / DAY_MS
    burden, at, last = 0.0, 0, -gap - 1
    raised, lasting = np.zeros(len(series)), np.zeros(len(series), dtype=np.bool_)
    place = np.arange(len(series))
    for here in np.flatnonzero(is_candidate & (place >= least_points)).tolist():
        if here - last > gap:
            burden *= np.exp(-(here - at) * fading)
            at = here
            if statistic[here] < threshold[here] * WEARINESS**burden:
                continue
            raised[here + 1 :] += np.exp(-(place[here + 1 :] - here) * fading)
            burden += 1.0
        last = here
        lasting[here + 1 : here + 1 + gap] = True
    return np.where(lasting, threshold, threshold * WEARINESS**raised)


def exceeded_share(series: Series, alarms_a_day: float, points_an_alarm: float = 1.0) -> float:
    return min(MOST_EXCEEDED, alarms_a_day * points_an_alarm * series.interval_ms / DAY_MS)


def past_spread(residual: Floats, level: Floats) -> Floats:
    """How much a residual used to vary, before each point."""
    spread = NORMAL * last_means(np.abs(residual), None)
    return np.maximum(np.nan_to_num(spread), np.maximum(NOISE * np.nan_to_num(np.abs(level)), LEAST_SPREAD))


def in_deviations(residual: Floats, spread: Floats, most: float) -> Floats:
    """What is missing deviates by nothing."""
    return np.minimum(np.nan_to_num(np.abs(residual), nan=0.0) / spread, most)


def judged(
    series: Series,
    carried: Floats,
    threshold: Floats,
    *,
    half: float,
    least_points: int,
    expected: Floats,
    band: Floats,
    total: Floats | None = None,
) -> Scores:
    """Scores of what each metric carries of a statistic; in total, that of the metric with the most of it."""
    statistic = carried.max(axis=1, initial=0.0) if total is None else total
    is_ready = np.arange(len(series)) >= least_points
    is_seen = ~np.isnan(series.values).all(axis=1)
    sums = carried.sum(axis=1, keepdims=True)
    return Scores(
        score=np.where(is_ready, as_score(statistic, half), 0.0),
        threshold=np.where(np.isinf(threshold), NEVER, as_score(np.where(np.isinf(threshold), 0.0, threshold), half)),
        expected=expected,
        low=expected - band,
        high=expected + band,
        shares=np.divide(carried, sums, out=np.zeros_like(carried), where=sums > 0),
        is_flagged=is_ready & is_seen & (statistic >= threshold),
        is_ready=is_ready,
    )


def judged_by_deviations(
    series: Series,
    carried: Floats,
    *,
    expected: Floats,
    spread: Floats,
    exceeded: float,
    least_points: int,
    least_deviations: float | None = None,
) -> Scores:
    """Scores of how many of its usual deviations each metric is off, against the tail of the series' own past."""
    statistic = carried.max(axis=1)
    threshold = own_thresholds(statistic, exceeded)
    if least_deviations is not None:
        threshold = np.where(np.isinf(threshold), least_deviations, np.maximum(threshold, least_deviations))
    return judged(
        series,
        carried,
        wearied(series, statistic, threshold, least_points),
        half=HALF_DEVIATIONS,
        least_points=least_points,
        expected=expected,
        band=BAND_DEVIATIONS * spread,
    )
