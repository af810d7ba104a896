"""Days by our own score: utilisation against what past days of that weekday make one expect.

The expectation is the seasonal detector's. A cluster has too few days for thresholds from a tail of their own, so the
band itself decides: a day outside of it is flagged. What past days deviated by is a median, so that one strange weekend
does not hide the next. Days that were hardly observed are neither learned nor judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from gpulake.detect.calibration import BAND_DEVIATIONS, HALF_DEVIATIONS
from gpulake.detect.detectors.seasonal import Seasonal
from gpulake.detect.running import last_medians
from gpulake.detect.series import DAY_MS, Floats, Series, as_score

LEAST_DAYS = 21  # that were judged or could have been, before one that is judged
REMEMBERED_DAYS = 56
NORMAL_MEDIAN = 1.4826  # makes the median deviation of a normal distribution its standard deviation
LEAST_SPREAD_RATIO = 0.01  # a cluster that hardly ever changes is not news when it changes by a little
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class OwnDay:
    """What we say of a day of one cluster. None: it is not judged, or nothing can be expected yet."""

    cluster_id: str
    dt: date
    ratio: float | None
    coverage_ratio: float | None
    is_poorly_covered: bool
    history_days: int  # well observed ones before it
    score: float | None = None  # 0..1
    is_flagged: bool = False
    expected_ratio: float | None = None
    low_ratio: float | None = None
    high_ratio: float | None = None


def judge_days(rows: Iterable[Mapping[str, Any]]) -> dict[date, OwnDay]:
    """Rows of gold_cluster_util_daily. Of several clusters with the same day, the one furthest off speaks for it."""
    clusters: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        clusters.setdefault(str(row["cluster_id"]), []).append(row)
    found: dict[date, OwnDay] = {}
    for cluster in sorted(clusters):
        for day in judge_cluster(cluster, sorted(clusters[cluster], key=lambda row: row["dt"])):
            known = found.get(day.dt)
            if known is None or _rank(day) > _rank(known):
                found[day.dt] = day
    return found


def judge_cluster(cluster_id: str, rows: Sequence[Mapping[str, Any]]) -> list[OwnDay]:
    """Days of one cluster in order, each by those before it."""
    ratios = np.array([_judged(row) for row in rows], dtype=np.float64).reshape(-1, 1)
    times = np.array([(row["dt"] - EPOCH).days * DAY_MS for row in rows], dtype=np.int64)
    expected = Seasonal().score(Series(cluster_id, ("gpu_util_ratio",), times, ratios, DAY_MS)).expected
    spread = past_spread(np.abs(ratios - expected))
    deviations = np.abs(ratios - expected) / spread
    scores = as_score(deviations, HALF_DEVIATIONS)[:, 0].tolist()
    history = (np.cumsum(~np.isnan(ratios)) - ~np.isnan(ratios)[:, 0]).tolist()
    days = []
    for place, row in enumerate(rows):
        is_ready = history[place] >= LEAST_DAYS and not np.isnan(expected[place, 0])
        is_judged = is_ready and not np.isnan(ratios[place, 0])
        usual, width = float(expected[place, 0]), BAND_DEVIATIONS * float(spread[place, 0])
        days.append(
            OwnDay(
                cluster_id=cluster_id,
                dt=row["dt"],
                ratio=row["gpu_util_ratio"],
                coverage_ratio=row["coverage_ratio"],
                is_poorly_covered=bool(row["is_poorly_covered"]),
                history_days=history[place],
                score=scores[place] if is_judged else None,
                is_flagged=is_judged and bool(deviations[place, 0] > BAND_DEVIATIONS),
                expected_ratio=_ratio(usual) if is_ready else None,
                low_ratio=_ratio(usual - width) if is_ready else None,
                high_ratio=_ratio(usual + width) if is_ready else None,
            )
        )
    return days


def past_spread(off: Floats) -> Floats:
    """By how much days used to be off, before each; the band is never narrower than what is worth a look."""
    medians = np.vstack([np.full((1, 1), np.nan), last_medians(off, REMEMBERED_DAYS)[:-1]])[: len(off)]
    return np.maximum(np.nan_to_num(NORMAL_MEDIAN * medians), LEAST_SPREAD_RATIO)


def why(day: OwnDay | None, forest_flag: bool, forest_score: float | None) -> str:
    """Why our score and the reference's say the same of a day, or do not."""
    if day is None or day.score is None:
        return _not_judged(day) + ("; the forest flags it all the same" if forest_flag else "")
    lies = _where(day)
    if day.is_flagged and forest_flag:
        return f"both flag it: {lies}"
    if forest_flag:
        return f"the forest flags 5 % of days whatever they are; {lies}"
    if day.is_flagged:
        others = "has no score of it" if forest_score is None else "flags 5 % of days and finds others stranger"
        return f"{lies}; the forest {others}"
    return f"neither flags it: {lies}"


def _not_judged(day: OwnDay | None) -> str:
    if day is not None and day.is_poorly_covered:
        return f"low coverage: {day.coverage_ratio or 0:.1%} of capacity observed; not judged"
    if day is None or day.ratio is None:
        return "no utilisation is known of the day of that name; not judged"
    return f"too little history: {day.history_days} of {LEAST_DAYS} days"


def _where(day: OwnDay) -> str:
    ratio, low, high = day.ratio or 0.0, day.low_ratio or 0.0, day.high_ratio or 0.0
    side = "within" if not day.is_flagged else "above" if ratio > high else "below"
    return f"{ratio:.1%} lies {side} the {100 * low:.1f}–{high:.1%} expected of a {day.dt:%A}"


def _judged(row: Mapping[str, Any]) -> float:
    """NaN: hardly observed, or not at all."""
    ratio = row["gpu_util_ratio"]
    return np.nan if ratio is None or row["is_poorly_covered"] else float(ratio)


def _rank(day: OwnDay) -> tuple[bool, float, float]:
    return day.is_flagged, -1.0 if day.score is None else day.score, day.coverage_ratio or 0.0


def _ratio(value: float) -> float:
    return min(max(value, 0.0), 1.0)
