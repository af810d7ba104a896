"""From a detector's statistic to scores: thresholds come from the past of the series."""

from __future__ import annotations

import numpy as np

from gpulake.detect.alarms import usual_gap
from gpulake.detect.series import DAY_MS, UNREACHABLE, Floats, Scores, Series, as_score
from gpulake.detect.tail import BINS, bins_of, thresholds
from gpulake.detect.trailing import blocks, trailing_means

MOST_EXCEEDED = 0.05
RAISE_FACTOR = 3.0  # each alarm multiplies the next one's threshold by it; this decays by a factor of e in a day or so
NOISE = 1e-9  # relative: differences below it are rounding
LEAST_SPREAD = 1e-100
NORMAL = 1.2533  # standard deviation of a normal distribution, in mean absolute deviations
NORMAL_MEDIAN = 1.4826  # the same, in median absolute deviations

# Detectors that count in standard deviations: clip at 1000σ; 6σ scores 0.5; the band is ±4σ.
MOST_DEVIATIONS = 1000.0
HALF_DEVIATIONS = 6.0
BAND_DEVIATIONS = 4.0


def past_thresholds(statistic: Floats, exceeded: float, points_kept: float = np.inf) -> Floats:
    """At each point, the value that this share of the points before its block exceeded. A point that is `points_kept`
    points old weighs 1/e of a new one."""
    counts = np.zeros(BINS)
    out = np.full(len(statistic), np.inf)
    for begin, end in blocks(len(statistic)):
        out[begin:end] = float(thresholds(counts, exceeded))
        if begin:
            counts *= np.exp((begin - end) / points_kept)
            counts += np.bincount(bins_of(statistic[begin:end]), minlength=BINS)
    return out


def raised_by_alarms(
    series: Series, statistic: Floats, threshold: Floats, least_points: int, fades_in_days: float = 1.0
) -> Floats:
    """The threshold, raised after each alarm so that a series cannot alert every hour. An alarm that continues is
    compared with the threshold it began with."""
    is_candidate = (statistic >= threshold) & ~np.isnan(series.values).all(axis=1)
    gap, fading = usual_gap(series.interval_ms), series.interval_ms / (DAY_MS * fades_in_days)
    recent_alarms, at, last = 0.0, 0, -gap - 1
    raised, continuing = np.zeros(len(series)), np.zeros(len(series), dtype=np.bool_)
    for here in (least_points + np.flatnonzero(is_candidate[least_points:])).tolist():
        if here - last > gap:
            raises = recent_alarms * np.exp(-(here - at) * fading)
            if statistic[here] < threshold[here] * RAISE_FACTOR**raises:
                continue
            raised[at + 1 : here + 1] = recent_alarms * np.exp(-np.arange(1, here - at + 1) * fading)
            recent_alarms, at = raises + 1.0, here
        last = here
        continuing[here + 1 : here + 1 + gap] = True
    raised[at + 1 :] = recent_alarms * np.exp(-np.arange(1, len(series) - at) * fading)
    return np.where(continuing, threshold, threshold * RAISE_FACTOR**raised)


def exceeded_share(series: Series, alarms_a_day: float, points_an_alarm: float = 1.0) -> float:
    return min(MOST_EXCEEDED, alarms_a_day * points_an_alarm * series.interval_ms / DAY_MS)


def past_spread(residual: Floats, level: Floats) -> Floats:
    """The spread of the residuals before each point."""
    spread = NORMAL * trailing_means(np.abs(residual), None)
    return np.maximum(np.nan_to_num(spread), np.maximum(NOISE * np.nan_to_num(np.abs(level)), LEAST_SPREAD))


def scores_from(
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
    """Scores from each metric's part of a statistic. The statistic is `total`, or the largest part."""
    statistic = carried.max(axis=1, initial=0.0) if total is None else total
    is_ready = np.arange(len(series)) >= least_points
    is_measured = ~np.isnan(series.values).all(axis=1)
    is_never = np.isinf(threshold)
    sums = carried.sum(axis=1, keepdims=True)
    return Scores(
        score=np.where(is_ready, as_score(statistic, half), 0.0),
        threshold=np.where(is_never, UNREACHABLE, as_score(np.where(is_never, 0.0, threshold), half)),
        expected=expected,
        low=expected - band,
        high=expected + band,
        shares=np.divide(carried, sums, out=np.zeros_like(carried), where=sums > 0),
        is_flagged=is_ready & is_measured & (statistic >= threshold),
        is_ready=is_ready,
    )
