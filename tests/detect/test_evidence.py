"""The part of a series that explains an alarm: the right alarm, enough around it, and a band that can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from gpulake.detect.detectors.burst import Burst
from gpulake.detect.evidence import MOST_POINTS, evidence, id_of
from gpulake.detect.series import UNREACHABLE, Floats, Scores, Series

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def hours(place: int) -> datetime:
    return EPOCH + timedelta(hours=place)


def series(values: Floats) -> Series:
    return Series("n1", ("a", "b"), np.arange(len(values), dtype=np.int64) * HOUR_MS, values, HOUR_MS)


def scores(count: int, flagged: tuple[int, ...], carrier: int = 1) -> Scores:
    """Of two metrics; the last flagged point is the peak."""
    score, is_flagged, shares = np.zeros(count), np.zeros(count, dtype=np.bool_), np.zeros((count, 2))
    for number, place in enumerate(flagged):
        score[place], is_flagged[place] = 0.6 + number / 100, True
        shares[place, carrier], shares[place, 1 - carrier] = 0.75, 0.25
    middle = np.full((count, 2), 3.0)
    return Scores(score, np.full(count, 0.5), middle, middle - 4, middle + 4, shares, is_flagged, np.ones(count, bool))


def test_the_reported_alarm_is_explained_with_its_surroundings() -> None:
    values = np.arange(800.0).reshape(400, 2)
    shown = evidence(series(values), scores(400, (100, 300, 301, 302)), Burst(), "jobs", hours(299))
    assert (shown.began_at, shown.ended_at, shown.times[shown.peak]) == (hours(300), hours(302), hours(302))
    assert (shown.times[0], shown.times[-1]) == (hours(240), hours(322))
    assert [(track.metric, track.share) for track in shown.tracks] == [("b", 0.75), ("a", 0.25)]
    assert shown.tracks[0].values == tuple(values[240:323, 1].tolist())
    assert [place for place, is_flagged in enumerate(shown.is_flagged) if is_flagged] == [60, 61, 62]
    assert (shown.history_points, shown.history_since, shown.threshold) == (300, EPOCH, 0.5)
    assert (shown.detector, shown.least_points, shown.unit) == ("burst", Burst().least_points, "jobs")
    first = evidence(series(values), scores(400, (100, 300, 301, 302)), Burst(), "jobs", hours(101))
    assert first.began_at == hours(100)


def test_a_long_alarm_is_shown_around_its_peak() -> None:
    shown = evidence(series(np.zeros((9000, 2))), scores(9000, tuple(range(2000, 7000))), Burst(), "", None)
    assert len(shown.times) == MOST_POINTS
    assert shown.times[shown.peak] == hours(6999)
    assert shown.scores[shown.peak] == max(shown.scores)


def test_what_is_never_negative_is_not_expected_to_be() -> None:
    seen = np.ones((200, 2))
    found = scores(200, (150,))
    assert set(evidence(series(seen), found, Burst(), "", None).tracks[0].low) == {0.0}
    seen[5] = -1.0
    assert set(evidence(series(seen), found, Burst(), "", None).tracks[0].low) == {-1.0}


def test_what_is_not_known_is_empty_and_a_threshold_that_nothing_reaches_is_none() -> None:
    seen = np.ones((200, 2))
    seen[149, 1] = np.nan
    found = replace(scores(200, (150,)), threshold=np.full(200, UNREACHABLE), expected=np.full((200, 2), np.nan))
    shown = evidence(series(seen), found, Burst(), "", None)
    assert shown.tracks[0].values[shown.peak - 1] is None
    assert set(shown.tracks[0].expected) == {None}
    assert shown.threshold is None


def test_where_nothing_is_flagged_any_more_the_highest_score_is_shown() -> None:
    quiet = scores(200, (150,))
    quiet = replace(quiet, is_flagged=np.zeros(200, dtype=np.bool_))
    shown = evidence(series(np.ones((200, 2))), quiet, Burst(), "", hours(10))
    assert (shown.began_at, shown.times[shown.peak]) == (hours(150), hours(150))


def test_what_no_watch_found_has_an_id_of_what_it_is_about() -> None:
    day = {"finding_id": "", "kind": "flagged_day", "subject": "2026-01-05", "day": "2026-01-05", "rank": 3}
    assert id_of({"finding_id": "f-1"}) == "f-1"
    assert id_of(day) == id_of({**day, "rank": 9, "headline": "told otherwise"})
    assert id_of(day) != id_of({**day, "subject": "2026-01-06"})
