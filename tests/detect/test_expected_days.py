"""Days by our own score, against a plain reckoning of the same, and the sentence beside the reference's flag."""

from __future__ import annotations

from datetime import date, timedelta
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.detect.expected_days import LEAST_DAYS, ScoredDay, explain_difference, score_cluster, score_cluster_days
from gpulake.lake import Lake

FIRST = date(2026, 1, 5)  # a Monday
Row = dict[str, Any]
RATIOS = st.lists(
    st.tuples(st.floats(0, 1, allow_subnormal=False), st.sampled_from([False, False, False, True])),
    min_size=1,
    max_size=70,
)


def day(place: int, ratio: float | None, is_poor: bool = False, cluster: str = "c") -> Row:
    return {
        "cluster_id": cluster,
        "dt": FIRST + timedelta(days=place),
        "gpu_util_ratio": ratio,
        "coverage_ratio": 0.03 if is_poor else 0.4,
        "is_poorly_covered": is_poor,
    }


def usual(count: int = 42) -> list[Row]:
    """Weekends are quieter, and every day differs a little from the one of a week before."""
    return [day(place, (0.3 if place % 7 < 5 else 0.2) + 0.005 * (place * 7919 % 5 - 2)) for place in range(count)]


def reckoned(rows: list[Row]) -> list[tuple[float, float] | None]:
    """Expected value and spread of each day, one day at a time, with nothing but lists."""
    weekly: dict[int, list[float | None]] = {weekday: [] for weekday in range(7)}
    daily: list[float | None] = []
    offsets: dict[int, float | None] = {}
    off: list[float | None] = []
    found: list[tuple[float, float] | None] = []
    for row in rows:
        weekday = row["dt"].weekday()
        same = [value for value in weekly[weekday][-8:] if value is not None]
        any_day = [value for value in daily[-14:] if value is not None]
        base = median(same) if len(same) >= 2 else median(any_day) if len(any_day) >= 3 else None
        trends = [value for value in offsets.values() if value is not None]
        past = [value for value in off[-56:] if value is not None]
        expected = None if base is None else base + (median(trends) if trends else 0.0)
        spread = max(0.01, 1.4826 * median(past)) if past else 0.01
        found.append(None if expected is None else (expected, spread))
        value = None if row["is_poorly_covered"] else row["gpu_util_ratio"]
        weekly[weekday].append(value)
        daily.append(value)
        offsets[weekday] = None if value is None or base is None else value - base
        off.append(None if value is None or expected is None else abs(value - expected))
    return found


@given(RATIOS)
def test_a_day_is_judged_as_a_plain_reckoning_does(drawn: list[tuple[float, bool]]) -> None:
    rows = [day(place, ratio, is_poor) for place, (ratio, is_poor) in enumerate(drawn)]
    judged = score_cluster("c", rows)
    good = 0
    for row, own, plain in zip(rows, judged, reckoned(rows), strict=True):
        assert own.history_days == good
        if plain is None or good < LEAST_DAYS:
            assert (own.score, own.is_flagged, own.expected_ratio) == (None, False, None)
        else:
            expected, spread = plain
            band = [min(max(value, 0.0), 1.0) for value in (expected, expected - 4 * spread, expected + 4 * spread)]
            assert [own.expected_ratio, own.low_ratio, own.high_ratio] == pytest.approx(band)
            strength = abs(row["gpu_util_ratio"] - expected) / spread
            if row["is_poorly_covered"]:
                assert (own.score, own.is_flagged) == (None, False)
            else:
                assert own.score == pytest.approx(strength / (strength + 6))
                if abs(strength - 4) > 1e-6:
                    assert own.is_flagged == (strength > 4)
        good += not row["is_poorly_covered"]


@pytest.mark.slow
@given(RATIOS, st.integers(1, 70))
def test_the_score_of_a_day_depends_only_on_earlier_days(drawn: list[tuple[float, bool]], kept: int) -> None:
    rows = [day(place, ratio, is_poor) for place, (ratio, is_poor) in enumerate(drawn)]
    assert score_cluster("c", rows[:kept]) == score_cluster("c", rows)[:kept]


def test_a_strange_weekend_is_flagged_and_does_not_hide_the_next() -> None:
    rows = usual(70)
    for place in (40, 41, 54, 55):
        rows[place] = day(place, 0.6)
    assert [own.dt for own in score_cluster("c", rows) if own.is_flagged] == [rows[p]["dt"] for p in (40, 41, 54, 55)]


def test_a_day_that_was_hardly_observed_is_neither_judged_nor_learned() -> None:
    rows = usual()
    changed = [*rows[:30], day(30, 0.99, is_poor=True), *rows[31:]]
    other = [*rows[:30], day(30, None, is_poor=True), *rows[31:]]
    judged, same = score_cluster("c", changed), score_cluster("c", other)
    assert judged[:30] + judged[31:] == same[:30] + same[31:]
    assert not any(own.is_flagged for own in judged)
    assert (judged[30].score, judged[30].expected_ratio) == (None, same[30].expected_ratio)


def test_a_cluster_that_never_changed_is_not_news_when_it_changes_by_a_little() -> None:
    rows = [day(place, 0.3) for place in range(30)]
    assert not score_cluster("c", [*rows, day(30, 0.338)])[30].is_flagged
    assert score_cluster("c", [*rows, day(30, 0.342)])[30].is_flagged


def test_of_several_clusters_the_one_that_is_furthest_off_speaks_for_the_day() -> None:
    quiet = usual()
    loud = [{**row, "cluster_id": "d"} for row in quiet]
    loud[35] = day(35, 0.9, cluster="d")
    days = score_cluster_days([*loud, *quiet])
    assert len(days) == len(quiet)
    assert days[loud[35]["dt"]] == score_cluster("d", loud)[35]
    assert [own.dt for own in days.values() if own.is_flagged] == [loud[35]["dt"]]


def test_no_days_are_no_days() -> None:
    assert score_cluster_days([]) == {}


SATURDAY = date(2026, 2, 14)
JUDGED = ScoredDay("c", SATURDAY, 0.31, 0.4, False, 40, 0.1, False, 0.31, 0.24, 0.38)
HIGH = ScoredDay("c", SATURDAY, 0.51, 0.4, False, 40, 0.6, True, 0.31, 0.24, 0.38)
LOW = ScoredDay("c", SATURDAY, 0.11, 0.4, False, 40, 0.6, True, 0.31, 0.24, 0.38)
POOR = ScoredDay("c", SATURDAY, 0.9, 0.032, True, 40)
YOUNG = ScoredDay("c", SATURDAY, 0.9, 0.4, False, 6)
BLIND = ScoredDay("c", SATURDAY, None, None, False, 40)
ALL_THE_SAME = "; the forest flags it all the same"


@pytest.mark.parametrize(
    ("own", "flag", "score", "said"),
    [
        (JUDGED, False, 0.1, "neither flags it: 31.0% lies within the 24.0–38.0% expected of a Saturday"),
        (
            *(JUDGED, True, -0.1),
            "the forest flags 5 % of days whatever they are; 31.0% lies within the 24.0–38.0% expected of a Saturday",
        ),
        (HIGH, True, -0.1, "both flag it: 51.0% lies above the 24.0–38.0% expected of a Saturday"),
        (
            *(LOW, False, 0.1),
            "11.0% lies below the 24.0–38.0% expected of a Saturday; "
            "the forest flags 5 % of days and finds others stranger",
        ),
        (HIGH, False, None, "51.0% lies above the 24.0–38.0% expected of a Saturday; the forest has no score of it"),
        (POOR, False, 0.1, "low coverage: 3.2% of capacity observed; not scored"),
        (POOR, True, -0.1, "low coverage: 3.2% of capacity observed; not scored" + ALL_THE_SAME),
        (YOUNG, False, 0.1, "too little history: 6 of 21 days"),
        (BLIND, False, 0.1, "no utilisation is known of that day; not scored"),
        (None, True, -0.1, "no utilisation is known of that day; not scored" + ALL_THE_SAME),
    ],
)
def test_the_sentence_says_why_the_two_differ(
    own: ScoredDay | None, flag: bool, score: float | None, said: str
) -> None:
    assert explain_difference(own, flag, score) == said


def test_the_scored_table_has_our_score_beside_the_references(shared_lake: Config) -> None:
    lake = Lake(shared_lake)
    scored = rows_of(lake, "FROM gold_cluster_util_daily_scored ORDER BY dt")
    own = score_cluster_days(rows_of(lake, "FROM gold_cluster_util_daily"))
    names = ("own_score", "own_flag", "own_expected_ratio", "own_low_ratio", "own_high_ratio", "why_they_differ")
    expected = [
        (
            *(day.score, day.is_flagged, day.expected_ratio, day.low_ratio, day.high_ratio),
            explain_difference(day, row["anomaly_flag"] == 1, float(str(row["anomaly_score"]))),
        )
        for row in scored
        if (day := own[date.fromisoformat(str(row["dt"]))])
    ]
    assert [tuple(row[name] for name in names) for row in scored] == expected
    assert any(day.score is not None for day in own.values())
    assert not [row["dt"] for row in scored if row["own_flag"] and row["is_poorly_covered"]]
