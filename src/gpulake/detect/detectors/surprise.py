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
        change, _, _ = _deviations(series.values - trailing_means(series.values, LAST_POINTS), is_joint=False)
        unusual, unexplained, spread = _deviations(series.values - usual, is_joint=len(series.metrics) > 1)
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
    lengths = np.diff(starts)
    # A day at once: no slot occurs in it twice.
    turns = np.append(0, 1 + np.flatnonzero(np.diff(kinds) <= 0)).tolist()
    for first, end in zip(turns, [*turns[1:], len(kinds)], strict=True):
        day = kinds[first:end]
        before = known[day]
        is_known = ~np.isnan(before)
        if is_known.any():
            here = usual[starts[first] : starts[end]]
            of_slot = np.repeat(before, lengths[first:end], axis=0)
            np.copyto(here, of_slot, where=~np.isnan(of_slot))
        is_new = counts[first:end] > 0
        seen = sums[first:end] / np.maximum(counts[first:end], 1.0)
        days[day] = np.where(is_new, np.minimum(days[day] + 1, DAYS_KEPT), days[day])
        before = np.where(is_known, before, 0.0)
        known[day] = np.where(is_new, before + (seen - before) / np.maximum(days[day], 1.0), known[day])
    return usual


def _deviations(values: Floats, *, is_joint: bool) -> tuple[Floats, Floats, Floats]:
    """Each value in past standard deviations, the same after the shared components are removed (if joint), and the
    standard deviations."""
    count, metrics = values.shape
    plain, spread = np.zeros((count, metrics)), np.full((count, metrics), np.nan)
    unexplained = np.zeros((count, metrics)) if is_joint else plain
    past = _Past(metrics, is_joint)
    for begin, end in blocks(count):
        block = values[begin:end]
        if begin:
            mean, spreads = past.fit()
            limit = MOST_DEVIATIONS
            scaled = np.where(np.isnan(block), 0.0, np.clip((block - mean) / spreads, -3 * limit, 3 * limit))
            plain[begin:end] = np.clip(scaled, -limit, limit)
            if is_joint:
                unexplained[begin:end] = np.clip(scaled @ past.rest(spreads), -limit, limit)
            spread[begin:end] = spreads
            # Clip outliers, so that one does not widen the spread for good; a constant metric has no spread to clip by.
            reach = np.where(past.has_varied(), limit * spreads, np.inf)
            block = mean + np.clip(block - mean, -reach, reach)
        past.add(block)
    unexplained[np.isnan(values)] = 0.0
    return plain, unexplained, spread


class _Past:
    """Sums from which mean, deviation and, if joint, correlation follow. Missing values count as the mean."""

    def __init__(self, metrics: int, is_joint: bool) -> None:
        self.is_joint = is_joint
        self.count = 0
        self.seen = np.zeros(metrics)
        self.shift = np.full(metrics, np.nan)
        self.sums = np.zeros(metrics)
        self.squares = np.zeros(metrics)
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
        self.squares += np.einsum("ij,ij->j", moved, moved)
        if self.is_joint:
            self.products += moved.T @ moved
        self.largest = np.maximum(self.largest, np.abs(moved).max(axis=0, initial=0.0))

    def has_varied(self) -> Bools:
        return np.asarray(self.largest > NOISE * np.abs(self.shift))

    def fit(self) -> tuple[Floats, Floats]:
        """Mean and standard deviations."""
        mean = self.sums / self.count
        variance = (self.squares / self.count - mean**2) * self._share() ** 2
        spreads = np.sqrt(np.maximum(variance, 0.0))
        spreads = np.maximum(spreads, np.maximum(LEAST_VARIATION * self.largest, LEAST_SPREAD))
        level = np.where(np.isnan(self.shift), 0.0, self.shift) + mean
        return level, np.maximum(spreads, NOISE * np.abs(level))

    def rest(self, spreads: Floats) -> Floats:
        """The matrix that removes the leading components of the correlation and scales what is left."""
        metrics = len(self.sums)
        mean, share = self.sums / self.count, self._share()
        covariance = (self.products / self.count - np.outer(mean, mean)) * np.outer(share, share)
        correlation = covariance / np.outer(spreads, spreads)
        weights, vectors = np.linalg.eigh(correlation)
        shares = np.cumsum(weights[::-1]) / max(float(weights.sum()), 1e-12)
        kept = min(int(np.searchsorted(shares, EXPLAINED)) + 1, metrics - 1)
        leading = vectors[:, ::-1][:, :kept]
        rest = np.eye(metrics) - leading @ leading.T
        unexplained = np.sqrt(np.maximum(np.diag(rest @ correlation @ rest), LEAST_UNEXPLAINED**2))
        return np.asarray(rest / unexplained)

    def _share(self) -> Floats:
        return np.asarray(np.sqrt(self.count / np.maximum(self.seen, 1.0)))
