"""The default: a point that changes suddenly to what is unusual at that time of day, or breaks a correlation.

Each metric has two residuals, in standard deviations of their past: from the mean of the last two points, and from the
usual value at that time of day. With several metrics, the second counts twice: as it is, and after the leading
components of the past correlation are removed. The mean squares of the two residuals are multiplied, so that neither a
sudden change to a usual value nor a slow one counts for much alone; the score is their smoothed product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpulake.detect.calibration import (
    LEAST_SPREAD,
    NOISE,
    exceeded_share,
    past_thresholds,
    raised_by_alarms,
    scores_from,
)
from gpulake.detect.series import DAY_MS, Bools, Floats, Scores, Series, no_scores
from gpulake.detect.trailing import FIRST_BLOCK, blocks, slots, smoothed, trailing_means

LAST_POINTS = 2
SLOT_MS = 600_000
DAYS_KEPT = 7
SMOOTHING = 15.0
# Clip at 30σ: a metric that was constant must not dominate all others.
MOST_DEVIATIONS = 30.0
EXPLAINED = 0.5
LEAST_VARIATION = 1e-3  # of the largest deviation so far
LEAST_UNEXPLAINED = 0.05
BAND = 4.0
HALF = 10.0  # a statistic of 10 scores 0.5
BREAK = 0.3  # weight of what breaks the usual correlation, be it sudden or not
POINTS_AN_ALARM = 3.0
POINTS_KEPT = 3000.0  # of the past that sets the threshold: the first days of a series are its most surprising
RAISE_DAYS = 2.0


@dataclass(frozen=True)
class Surprise:
    alarms_a_day: float = 4.0  # before thresholds are raised by earlier alarms
    least_points: int = 3 * FIRST_BLOCK

    def score(self, series: Series) -> Scores:
        if not len(series) or not len(series.metrics):
            return no_scores(series)
        usual = _usual_at_that_time(series)
        change, _, _ = _deviations(series.values - trailing_means(series.values, LAST_POINTS))
        unusual, unexplained, spread = _deviations(series.values - usual)
        carried = _carried(change**2, unusual**2, unexplained**2)
        now = carried.sum(axis=1)
        carried = smoothed(carried, SMOOTHING)
        lately = carried.sum(axis=1)
        # An alarm needs both: a smoothed score alone is late, and rises for hours after one large value.
        statistic = np.sqrt(now * lately)
        exceeded = exceeded_share(series, self.alarms_a_day, POINTS_AN_ALARM)
        threshold = past_thresholds(statistic, exceeded, POINTS_KEPT)
        threshold = raised_by_alarms(series, statistic, threshold, self.least_points, RAISE_DAYS)
        return scores_from(
            series,
            carried,
            np.divide(threshold**2, now, out=np.full(len(series), np.inf), where=now > 0),
            half=HALF,
            least_points=self.least_points,
            expected=usual,
            band=BAND * spread,
            total=lately,
        )


def _carried(change: Floats, unusual: Floats, unexplained: Floats) -> Floats:
    """Each metric's part of a point's statistic, from squared deviations: sudden and unusual, or uncorrelated."""
    away = (unusual + unexplained) / 2
    both = np.sqrt(change.mean(axis=1) * away.mean(axis=1))[:, None]
    sums = [np.maximum(part.sum(axis=1, keepdims=True), LEAST_SPREAD) for part in (change, away)]
    shares = (change / sums[0] + away / sums[1]) / 2
    return np.asarray(both * shares + BREAK * unexplained / unexplained.shape[1])


def _usual_at_that_time(series: Series) -> Floats:
    """The mean of the last days at that time of day; on the first day, the mean so far."""
    values = series.values
    slot_ms = max(SLOT_MS, series.interval_ms)
    number = max(1, DAY_MS // slot_ms)
    starts, kinds = slots(series.times_ms, slot_ms, number)
    usual = trailing_means(values, None)
    known = np.full((number, values.shape[1]), np.nan)
    days = np.zeros((number, values.shape[1]))
    is_there = ~np.isnan(values)
    filled = np.where(is_there, values, 0.0)
    sums = np.add.reduceat(filled, starts[:-1], axis=0)
    counts = np.add.reduceat(is_there.astype(np.float64), starts[:-1], axis=0)
    for place, kind in enumerate(kinds.tolist()):
        row = known[kind]
        is_known = ~np.isnan(row)
        if is_known.any():
            here = usual[starts[place] : starts[place + 1]]
            here[:, is_known] = row[is_known]
        is_new = counts[place] > 0
        seen = sums[place][is_new] / counts[place][is_new]
        days[kind, is_new] = np.minimum(days[kind, is_new] + 1, DAYS_KEPT)
        before = np.where(is_known, row, 0.0)[is_new]
        known[kind, is_new] = before + (seen - before) / days[kind, is_new]
    return usual


def _deviations(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Each value in past standard deviations, the same after the shared components are removed, and the standard
    deviations."""
    count, metrics = values.shape
    plain, unexplained, spread = (
        np.zeros((count, metrics)),
        np.zeros((count, metrics)),
        np.full((count, metrics), np.nan),
    )
    past = _Past(metrics)
    for begin, end in blocks(count):
        block = values[begin:end]
        if begin:
            mean, spreads, project = past.fit()
            limit = MOST_DEVIATIONS
            scaled = np.where(np.isnan(block), 0.0, np.clip((block - mean) / spreads, -3 * limit, 3 * limit))
            plain[begin:end] = np.clip(scaled, -limit, limit)
            unexplained[begin:end] = np.clip(scaled @ project, -limit, limit)
            spread[begin:end] = spreads
            # Clip outliers, so that one does not widen the spread for good; a constant metric has no spread to clip by.
            reach = np.where(past.has_varied(), limit * spreads, np.inf)
            block = mean + np.clip(block - mean, -reach, reach)
        past.add(block)
    unexplained[np.isnan(values)] = 0.0
    return plain, unexplained, spread


class _Past:
    """Sums from which mean, deviation and correlation follow. Missing values count as the mean."""

    def __init__(self, metrics: int) -> None:
        self.count = 0
        self.seen = np.zeros(metrics)
        self.shift = np.full(metrics, np.nan)
        self.sums = np.zeros(metrics)
        self.products = np.zeros((metrics, metrics))
        self.largest = np.zeros(metrics)

    def add(self, block: Floats) -> None:
        is_there = ~np.isnan(block)
        is_first = np.isnan(self.shift) & is_there.any(axis=0)
        if is_first.any():
            first = block[np.argmax(is_there, axis=0), np.arange(block.shape[1])]
            self.shift = np.where(is_first, first, self.shift)
        mean = self.sums / max(self.count, 1)
        with np.errstate(invalid="ignore"):
            moved = np.where(is_there, block - self.shift, mean)
        self.count += len(block)
        self.seen += is_there.sum(axis=0)
        self.sums += moved.sum(axis=0)
        self.products += moved.T @ moved
        self.largest = np.maximum(self.largest, np.abs(moved).max(axis=0, initial=0.0))

    def has_varied(self) -> Bools:
        return np.asarray(self.largest > NOISE * np.abs(self.shift))

    def fit(self) -> tuple[Floats, Floats, Floats]:
        """Mean, standard deviations, and the matrix that removes the leading components and scales the rest."""
        metrics = len(self.sums)
        mean = self.sums / self.count
        share = np.sqrt(self.count / np.maximum(self.seen, 1.0))
        covariance = (self.products / self.count - np.outer(mean, mean)) * np.outer(share, share)
        spreads = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        spreads = np.maximum(spreads, np.maximum(LEAST_VARIATION * self.largest, LEAST_SPREAD))
        level = np.where(np.isnan(self.shift), 0.0, self.shift) + mean
        spreads = np.maximum(spreads, NOISE * np.abs(level))
        if metrics == 1:
            return level, spreads, np.eye(1)
        correlation = covariance / np.outer(spreads, spreads)
        weights, vectors = np.linalg.eigh(correlation)
        shares = np.cumsum(weights[::-1]) / max(float(weights.sum()), 1e-12)
        kept = min(int(np.searchsorted(shares, EXPLAINED)) + 1, metrics - 1)
        leading = vectors[:, ::-1][:, :kept]
        rest = np.eye(metrics) - leading @ leading.T
        unexplained = np.sqrt(np.maximum(np.diag(rest @ correlation @ rest), LEAST_UNEXPLAINED**2))
        return level, spreads, rest / unexplained
