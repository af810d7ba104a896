"""The verdict on a day: flagged if a watch reports unusual utilisation of its cluster then, as a warning or worse.

The watch `cluster_days` compares machines with their own usual day; its expectation, as a factor of what was seen,
gives the expected utilisation of the cluster. Poorly covered days are neither learned nor scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.series import utc
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watches.cluster_days import NOON_MS, UNUSUAL

KIND = "unusual_utilisation"
LEAST_OVERLAP = timedelta(hours=3)  # of a finding with a day
Key = tuple[str, date]


@dataclass(frozen=True)
class ScoredDay:
    """A day of one cluster. None: it is not scored, or there is no expectation yet."""

    cluster_id: str
    dt: date
    ratio: float | None
    coverage_ratio: float | None
    is_poorly_covered: bool
    history_days: int = 0  # well covered days before it
    score: float | None = None  # 0..1
    is_flagged: bool = False
    expected_ratio: float | None = None
    low_ratio: float | None = None
    high_ratio: float | None = None
    headline: str = ""  # of the finding that flags it


def score_cluster_days(
    read: Read, rows: Iterable[Mapping[str, Any]], watched: Iterable[Finding]
) -> dict[date, ScoredDay]:
    """Rows of gold_cluster_util_daily with the day's begin and end. Of several clusters, that which deviates most."""
    expected = dict(_expected(read))
    found: dict[str, list[Finding]] = {}
    for one in watched:
        if one.kind == KIND and one.severity != "info":
            found.setdefault(str(one.cluster_id), []).append(one)
    days: dict[date, ScoredDay] = {}
    for row in rows:
        cluster = str(row["cluster_id"])
        day = _judged(_scored(row, expected.get((cluster, row["dt"]))), row, found.get(cluster, ()))
        known = days.get(day.dt)
        if known is None or _rank(day) > _rank(known):
            days[day.dt] = day
    return days


def _expected(read: Read) -> Iterator[tuple[Key, tuple[int, float, float, float, float]]]:
    """By day: well covered days before it, its score, and the expectation and band as factors of what was seen."""
    plug = WATCHES.get("cluster_days")()
    for series in plug.series(read):
        scores = plug.detector.score(series)
        is_seen = ~np.isnan(series.values[:, 0])
        history = np.cumsum(is_seen) - is_seen
        with np.errstate(invalid="ignore"):
            factors = np.exp(np.column_stack([scores.expected, scores.low, scores.high]) - series.values)
        for place, at_ms in enumerate(series.times_ms.tolist()):
            key = (str(series.cluster_id), utc(at_ms + NOON_MS).date())
            yield key, (int(history[place]), float(scores.score[place]), *factors[place].tolist())


def _scored(row: Mapping[str, Any], expected: tuple[int, float, float, float, float] | None) -> ScoredDay:
    ratio = row["gpu_util_ratio"]
    day = ScoredDay(str(row["cluster_id"]), row["dt"], ratio, row["coverage_ratio"], bool(row["is_poorly_covered"]))
    if expected is None:
        return day
    history, score, *factors = expected
    day = replace(day, history_days=history)
    if ratio is None or day.is_poorly_covered or history < UNUSUAL.least_points or not np.isfinite(factors).all():
        return day
    usual, low, high = (min(max(ratio * factor, 0.0), 1.0) for factor in factors)
    return replace(day, score=score, expected_ratio=usual, low_ratio=low, high_ratio=high)


def _judged(day: ScoredDay, row: Mapping[str, Any], found: Iterable[Finding]) -> ScoredDay:
    flagging = [one for one in found if _overlap(one, row["started_at"], row["ended_at"]) >= LEAST_OVERLAP]
    if not flagging:
        return day
    first = max(flagging, key=lambda one: one.score or 0.0)
    return replace(day, is_flagged=True, score=max(day.score or 0.0, first.score or 0.0), headline=first.headline)


def _overlap(finding: Finding, begin: datetime | None, end: datetime | None) -> timedelta:
    if begin is None or end is None or finding.began_at is None:
        return timedelta()
    return min(end, finding.ended_at or finding.began_at) - max(begin, finding.began_at)


def explain_difference(day: ScoredDay | None, forest_flag: bool, forest_score: float | None) -> str:
    """Why our verdict and the reference's agree on a day, or do not."""
    if day is not None and day.is_flagged:
        if forest_flag:
            return f"both flag it: {day.headline}"
        others = "has no score of it" if forest_score is None else "flags 5 % of days and finds others stranger"
        return f"{day.headline}; the forest {others}"
    if day is None or day.score is None:
        return _unscored(day) + ("; the forest flags it all the same" if forest_flag else "")
    return ("the forest flags 5 % of days whatever they are; " if forest_flag else "neither flags it: ") + _where(day)


def _unscored(day: ScoredDay | None) -> str:
    if day is not None and day.is_poorly_covered:
        return f"low coverage: {day.coverage_ratio or 0:.1%} of capacity observed; not scored"
    if day is None or day.ratio is None:
        return "no utilisation is known of that day; not scored"
    return f"too little history: {day.history_days} of {UNUSUAL.least_points} days"


def _where(day: ScoredDay) -> str:
    ratio, low, high = day.ratio or 0.0, day.low_ratio or 0.0, day.high_ratio or 0.0
    side = "above" if ratio > high else "below" if ratio < low else "within"
    why = "" if side == "within" else ", by too little to report, or soon after another such day"
    return f"{ratio:.1%} lies {side} the {100 * low:.1f}–{high:.1%} expected of a {day.dt:%A}{why}"


def _rank(day: ScoredDay) -> tuple[bool, float, float]:
    return day.is_flagged, -1.0 if day.score is None else day.score, day.coverage_ratio or 0.0
