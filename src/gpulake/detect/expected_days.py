"""Scores the utilisation of each day against the expectation from past days of that weekday.

The expectation is the seasonal detector's. A cluster has too few days to estimate a tail, so a day outside the band is
flagged. The spread is a median, so that one unusual weekend does not hide the next. Poorly covered days are neither
learned nor scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from gpulake.detect.calibration import BAND_DEVIATIONS, HALF_DEVIATIONS, NORMAL_MEDIAN
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.series import DAY_MS, Floats, Series, as_score
from gpulake.detect.trailing import trailing_medians

LEAST_DAYS = 21  # well covered days before the first that is scored
REMEMBERED_DAYS = 56
LEAST_SPREAD_RATIO = 0.01  # so that small changes of a steady cluster are not flagged
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class ScoredDay:
    """A day of one cluster. None: it is not scored, or there is no expectation yet."""

    cluster_id: str
    dt: date
    ratio: float | None
    coverage_ratio: float | None
    is_poorly_covered: bool
    history_days: int  # well covered days before it
    score: float | None = None  # 0..1
    is_flagged: bool = False
    expected_ratio: float | None = None
    low_ratio: float | None = None
    high_ratio: float | None = None


def score_cluster_days(rows: Iterable[Mapping[str, Any]]) -> dict[date, ScoredDay]:
    """Rows of gold_cluster_util_daily. Of several clusters, the one that deviates most counts."""
    clusters: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        clusters.setdefault(str(row["cluster_id"]), []).append(row)
    days: dict[date, ScoredDay] = {}
    for cluster in sorted(clusters):
        for day in score_cluster(cluster, sorted(clusters[cluster], key=lambda row: row["dt"])):
            known = days.get(day.dt)
            if known is None or _rank(day) > _rank(known):
                days[day.dt] = day
    return days


def score_cluster(cluster_id: str, rows: Sequence[Mapping[str, Any]]) -> list[ScoredDay]:
    """Days of one cluster in order, each scored by those before it."""
    ratios = np.array([_observed_ratio(row) for row in rows], dtype=np.float64).reshape(-1, 1)
    times = np.array([(row["dt"] - EPOCH).days * DAY_MS for row in rows], dtype=np.int64)
    expected = Seasonal().score(Series(cluster_id, ("gpu_util_ratio",), times, ratios, DAY_MS)).expected
    spread = _past_spread(np.abs(ratios - expected))
    deviations = np.abs(ratios - expected) / spread
    scores = as_score(deviations, HALF_DEVIATIONS)[:, 0].tolist()
    history = (np.cumsum(~np.isnan(ratios)) - ~np.isnan(ratios)[:, 0]).tolist()
    days = []
    for place, row in enumerate(rows):
        is_ready = history[place] >= LEAST_DAYS and not np.isnan(expected[place, 0])
        is_scored = is_ready and not np.isnan(ratios[place, 0])
        usual, width = float(expected[place, 0]), BAND_DEVIATIONS * float(spread[place, 0])
        days.append(
            ScoredDay(
                cluster_id=cluster_id,
                dt=row["dt"],
                ratio=row["gpu_util_ratio"],
                coverage_ratio=row["coverage_ratio"],
                is_poorly_covered=bool(row["is_poorly_covered"]),
                history_days=history[place],
                score=scores[place] if is_scored else None,
                is_flagged=is_scored and bool(deviations[place, 0] > BAND_DEVIATIONS),
                expected_ratio=_ratio(usual) if is_ready else None,
                low_ratio=_ratio(usual - width) if is_ready else None,
                high_ratio=_ratio(usual + width) if is_ready else None,
            )
        )
    return days


def _past_spread(off: Floats) -> Floats:
    """The median deviation of the days before each, at least LEAST_SPREAD_RATIO."""
    medians = np.vstack([np.full((1, 1), np.nan), trailing_medians(off, REMEMBERED_DAYS)[:-1]])[: len(off)]
    return np.maximum(np.nan_to_num(NORMAL_MEDIAN * medians), LEAST_SPREAD_RATIO)


def explain_difference(day: ScoredDay | None, forest_flag: bool, forest_score: float | None) -> str:
    """Why our score and the reference's agree on a day, or do not."""
    if day is None or day.score is None:
        return _unscored(day) + ("; the forest flags it all the same" if forest_flag else "")
    lies = _where(day)
    if day.is_flagged and forest_flag:
        return f"both flag it: {lies}"
    if forest_flag:
        return f"the forest flags 5 % of days whatever they are; {lies}"
    if day.is_flagged:
        others = "has no score of it" if forest_score is None else "flags 5 % of days and finds others stranger"
        return f"{lies}; the forest {others}"
    return f"neither flags it: {lies}"


def _unscored(day: ScoredDay | None) -> str:
    if day is not None and day.is_poorly_covered:
        return f"low coverage: {day.coverage_ratio or 0:.1%} of capacity observed; not scored"
    if day is None or day.ratio is None:
        return "no utilisation is known of that day; not scored"
    return f"too little history: {day.history_days} of {LEAST_DAYS} days"


def _where(day: ScoredDay) -> str:
    ratio, low, high = day.ratio or 0.0, day.low_ratio or 0.0, day.high_ratio or 0.0
    side = "within" if not day.is_flagged else "above" if ratio > high else "below"
    return f"{ratio:.1%} lies {side} the {100 * low:.1f}–{high:.1%} expected of a {day.dt:%A}"


def _observed_ratio(row: Mapping[str, Any]) -> float:
    """NaN: poorly covered, or not at all."""
    ratio = row["gpu_util_ratio"]
    return np.nan if ratio is None or row["is_poorly_covered"] else float(ratio)


def _rank(day: ScoredDay) -> tuple[bool, float, float]:
    return day.is_flagged, -1.0 if day.score is None else day.score, day.coverage_ratio or 0.0


def _ratio(value: float) -> float:
    return min(max(value, 0.0), 1.0)
