"""The verdict on a day is that of the watches, and the sentence beside the reference's flag says why they differ."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from conftest import rows_of
from detect.scenes import BEGIN, DAY, HOUR, SCENES, lake_of
from gpulake.core.config import Config
from gpulake.core.types import Finding
from gpulake.detect.expected_days import ScoredDay, explain_difference, score_cluster_days
from gpulake.detect.watchlist import run_watches
from gpulake.lake import Lake
from show.web.asking import ask, client_of

Row = dict[str, Any]


def day(place: int, ratio: float | None = 0.3, is_poor: bool = False, cluster: str = "c") -> Row:
    at = BEGIN + place * DAY
    return {
        "cluster_id": cluster,
        "dt": at.date(),
        "gpu_util_ratio": ratio,
        "coverage_ratio": 0.03 if is_poor else 0.4,
        "is_poorly_covered": is_poor,
        "started_at": at,
        "ended_at": at + DAY,
    }


def found(begin: datetime, hours: float, score: float = 0.7, severity: str = "warning", cluster: str = "c") -> Finding:
    return Finding(
        *("unusual_utilisation", cluster, f"unusual from {begin:%d} on", "", 1.5, "times"),
        severity=severity,
        cluster_id=cluster,
        began_at=begin,
        ended_at=begin + hours * HOUR,
        score=score,
    )


# No series: what the watches found is given.
NONE = "SELECT NULL::VARCHAR AS cluster_id, NULL::BIGINT AS at_ms, NULL::DOUBLE AS log_times_busier WHERE false"


def flagged(rows: list[Row], *findings: Finding) -> list[int]:
    with lake_of({}) as read:
        days = score_cluster_days(lambda _: read(NONE), rows, findings)
    return [(dt - BEGIN.date()).days for dt, own in days.items() if own.is_flagged]


def test_days_are_flagged_that_have_three_hours_of_a_finding() -> None:
    rows = [day(place) for place in range(9)]
    assert flagged(rows) == []
    assert flagged(rows, found(BEGIN + 2 * DAY, 48)) == [2, 3]
    assert flagged(rows, found(BEGIN + 3 * DAY - 4 * HOUR, 6)) == [2]
    assert flagged(rows, found(BEGIN + 3 * DAY - 3 * HOUR, 6)) == [2, 3]


def test_only_warnings_of_the_cluster_itself_flag_its_day() -> None:
    rows = [day(place) for place in range(5)]
    assert flagged(rows, found(BEGIN + DAY, 24, severity="info"), found(BEGIN + DAY, 24, cluster="d")) == []
    assert flagged([*rows, day(1, cluster="d")], found(BEGIN + DAY, 24, cluster="d")) == [1]


def test_an_unusual_day_has_its_expectation_and_band_beside_it() -> None:
    """One day all machines do half as much again; the band is that of the watch, as utilisation."""
    tables = SCENES["cluster_days"]("c")
    with lake_of(tables) as read:
        (alarm,) = run_watches(read)
        place = (alarm.began_at - BEGIN).days if alarm.began_at else -1
        rows = [day(number, 0.6 if number == place else 0.4) for number in range(30)]
        days = score_cluster_days(read, rows, [alarm])
    own = days[BEGIN.date() + timedelta(days=place)]
    assert [one.dt for one in days.values() if one.is_flagged] == [own.dt]
    assert own.headline == alarm.headline
    assert own.score == alarm.score
    assert own.expected_ratio == pytest.approx(0.6 / alarm.value)
    band = [float(ratio or 0.0) for ratio in (own.low_ratio, own.expected_ratio, own.high_ratio)]
    assert 0 < band[0] < band[1] < band[2] < 0.6
    assert [one.score is None for one in days.values()] == [number < 14 for number in range(30)]


def test_a_day_that_was_hardly_observed_is_not_scored() -> None:
    tables = SCENES["cluster_days"]("c")
    with lake_of(tables) as read:
        days = score_cluster_days(read, [day(number, is_poor=number == 20) for number in range(30)], [])
    assert [own.dt for own in days.values() if own.score is None][14:] == [BEGIN.date() + timedelta(days=20)]


SATURDAY = date(2026, 2, 14)
BUSY = "the machines of c were 1.6 times as busy"
JUDGED = ScoredDay("c", SATURDAY, 0.31, 0.4, False, 40, 0.1, False, 0.31, 0.24, 0.38)
HIGH = ScoredDay("c", SATURDAY, 0.51, 0.4, False, 40, 0.6, True, 0.31, 0.24, 0.38, BUSY)
LOW = ScoredDay("c", SATURDAY, 0.11, 0.4, False, 40, 0.4, False, 0.31, 0.24, 0.38)
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
        (HIGH, True, -0.1, f"both flag it: {BUSY}"),
        (
            *(HIGH, False, 0.1),
            f"{BUSY}; the forest flags 5 % of days and finds others stranger",
        ),
        (
            *(LOW, False, 0.1),
            "neither flags it: 11.0% lies below the 24.0–38.0% expected of a Saturday, "
            "by too little to report, or soon after another such day",
        ),
        (HIGH, False, None, f"{BUSY}; the forest has no score of it"),
        (POOR, False, 0.1, "low coverage: 3.2% of capacity observed; not scored"),
        (POOR, True, -0.1, "low coverage: 3.2% of capacity observed; not scored" + ALL_THE_SAME),
        (YOUNG, False, 0.1, "too little history: 6 of 14 days"),
        (BLIND, False, 0.1, "no utilisation is known of that day; not scored"),
        (None, True, -0.1, "no utilisation is known of that day; not scored" + ALL_THE_SAME),
    ],
)
def test_the_sentence_says_why_the_two_differ(
    own: ScoredDay | None, flag: bool, score: float | None, said: str
) -> None:
    assert explain_difference(own, flag, score) == said


@pytest.mark.slow
def test_the_flag_the_incidents_and_the_strangest_days_agree(shared_lake: Config) -> None:
    lake = Lake(shared_lake)
    scored = {str(row["dt"]): row for row in rows_of(lake, "FROM gold_cluster_util_daily_scored")}
    own = {dt for dt, row in scored.items() if row["own_flag"]}
    spans = """
        SELECT dt FROM silver_days AS days JOIN {table} AS unusual USING (cluster_id)
        WHERE unusual.kind = 'unusual_utilisation' AND unusual.severity <> 'info'
        AND epoch(least(days.ended_at, unusual.{end})) - epoch(greatest(days.started_at, unusual.began_at)) >= 3 * 3600
    """
    findings, incidents = (
        {str(row["dt"]) for row in rows_of(lake, spans.format(table=table, end=end))}
        for table, end in (("findings", "ended_at"), ("incidents", "last_seen_at"))
    )
    strangest = ask(client_of(shared_lake), "anomalous_days")[: len(own)]
    assert own == findings == incidents == {row["day"] for row in strangest} != set()
    assert all(row["own_flag"] for row in strangest)
    scores = [row["own_score"] for row in strangest]
    assert scores == sorted(scores, reverse=True)
