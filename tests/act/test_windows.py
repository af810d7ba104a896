"""Maintenance windows: when they are on, and for what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpulake.act.incidents.windows import Window, added, covering, removed, windows
from gpulake.core.errors import UsageError
from gpulake.core.incidents import Incident

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)  # a Friday
HOUR = timedelta(hours=1)
INCIDENT = Incident("i-1", AT, "opened", "gpulake", kind="gpu_hot", cluster_id="a100-1", node="gpu-17")


def window(**values: Any) -> Window:
    return added("ada", AT, **({"ends_at": AT + HOUR} | values))


def test_a_window_is_on_from_its_begin_up_to_its_end() -> None:
    own = window(starts_at=AT + HOUR, ends_at=AT + 2 * HOUR)
    on = [own.covers(AT + minutes * timedelta(minutes=1)) for minutes in (59, 60, 119, 120)]
    assert on == [False, True, True, False]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ({}, True),
        ({"cluster": "a100-*", "node": "gpu-1?", "kind": "gpu_*"}, True),
        ({"cluster": "h100-*"}, False),
        ({"node": "gpu-2?"}, False),
        ({"kind": "ecc"}, False),
        ({"cluster": "A100-*"}, False),
    ],
)
def test_a_window_is_for_what_its_patterns_match(patterns: dict[str, str], expected: bool) -> None:
    assert window(**patterns).is_for(INCIDENT) is expected


def test_a_pattern_is_not_for_what_has_no_name() -> None:
    nameless = Incident("i-1", AT, "opened", "gpulake", kind="gpu_hot")
    assert not window(node="?*").is_for(nameless)
    assert window().is_for(nameless)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-01-02T22:30:00+01:00", True),  # Friday evening
        ("2026-01-03T05:59:00+01:00", True),  # what began on Friday
        ("2026-01-03T06:00:00+01:00", False),
        ("2026-01-03T22:30:00+01:00", False),  # Saturday evening
        ("2026-01-02T21:59:00+01:00", False),
        ("2026-01-02T05:00:00+01:00", False),  # what began on Thursday
        ("2026-07-03T22:30:00+02:00", True),  # the clocks of the zone count
        ("2026-07-03T21:30:00+02:00", False),
    ],
)
def test_a_weekly_window_goes_by_the_clocks_of_its_zone(at: str, expected: bool) -> None:
    own = window(ends_at=None, weekdays="fri", hours="22:00-06:00", time_zone="Europe/Zurich")
    assert own.covers(datetime.fromisoformat(at)) is expected


def test_a_weekly_window_may_last_all_day_or_come_every_day() -> None:
    assert window(ends_at=None, weekdays="fri,sat").covers(AT)
    assert not window(ends_at=None, weekdays="sun").covers(AT)
    assert window(ends_at=None, hours="11:00-13:00").covers(AT)


@pytest.mark.parametrize(
    "values",
    [
        {"ends_at": None},
        {"ends_at": AT},
        {"starts_at": AT + 2 * HOUR},
        {"weekdays": "friday"},
        {"hours": "22-06"},
        {"hours": "22:00-22:00"},
        {"hours": "25:00-26:00"},
        {"hours": "01:00-02:00", "time_zone": "Mars"},
    ],
)
def test_a_window_that_never_is_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        window(**values)


def test_what_was_seen_while_a_window_was_on_is_quiet_afterwards_and_what_outlasts_it_is_not() -> None:
    own = window(starts_at=AT, ends_at=AT + HOUR)
    within = Incident("i", AT, "opened", "g", "hot", began_at=AT, last_seen_at=AT + HOUR / 2)
    outlasting = Incident("i", AT, "opened", "g", "hot", began_at=AT, last_seen_at=AT + 2 * HOUR)
    assert covering([own], within, AT + 9 * HOUR) == own
    assert covering([own], outlasting, AT + HOUR / 2) == own
    assert covering([own], outlasting, AT + 9 * HOUR) is None
    dead = Incident("i", AT, "opened", "g", began_at=AT - 99 * HOUR, last_seen_at=AT + HOUR / 2)
    assert covering([own], dead, AT + 9 * HOUR) == own
    assert covering([removed(own, "ada", AT)], within, AT) is None


def test_windows_are_read_as_they_stand() -> None:
    own = window()
    gone = removed(own, "ada", AT + HOUR)
    rows = [
        {name: at.isoformat() if isinstance(at, datetime) else at for name, at in one.row().items()}
        for one in (own, gone)
    ]
    assert windows([rows[0], {"window_id": "w"}, {"changed_at": 7, "window_id": "x", "changed_by": ""}]) == {
        own.window_id: own
    }
    assert windows(rows) == {own.window_id: gone}
    with pytest.raises(UsageError, match="was removed"):
        removed(gone, "ada", AT)
