"""The store of incidents: one order, one lock, one state machine."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.incidents import TRANSITIONS, Event, Incident, changed, histories
from gpulake.flow.incidents import change
from gpulake.lake import Lake

AT = datetime(2026, 1, 2, tzinfo=UTC)
OPENED = Incident("i-1", AT, "opened", "gpulake", opened_at=AT, reason="KeyError")
FOLLOWING: tuple[Event, ...] = tuple(event for event in TRANSITIONS if event != "opened")


def opened(lake: Lake, *incidents: Incident) -> None:
    with lake.incidents.changing() as changes:
        changes.append(incidents)


@st.composite
def lives(draw: st.DrawFn) -> list[Incident]:
    """The events of a few incidents. The clock may stand still, or be set back."""
    events = []
    for name in ("i-1", "i-2", "i-3")[: draw(st.integers(1, 3))]:
        one = replace(OPENED, incident_id=name)
        events.append(one)
        for event, minutes in draw(st.lists(st.tuples(st.sampled_from(FOLLOWING), st.integers(-2, 3)), max_size=8)):
            if one.state in TRANSITIONS[event].comes_from:
                one = changed(one, event, "ann", one.changed_at + timedelta(minutes=minutes), note=str(len(events)))
                events.append(one)
    return events


@given(lives(), st.randoms())
@settings(deadline=None)
def test_any_order_of_the_rows_gives_the_same_standing(events: list[Incident], chance: random.Random) -> None:
    expected = {event.incident_id: event for event in events}
    rows = [{**event.row(), "changed_at": event.changed_at.isoformat(), "opened_at": None} for event in events]
    chance.shuffle(rows)
    found = {name: history[-1] for name, history in histories(rows).items()}
    assert {name: replace(one, opened_at=AT) for name, one in found.items()} == expected


def test_pages_and_rooms_see_the_same_last_event_however_rows_were_written(lake: Lake) -> None:
    chance = random.Random(7)
    events = [OPENED]
    for event in ("muted", "reopened", "commented", "resolved", "assigned", "reopened", "acknowledged", "resolved"):
        if events[-1].state in TRANSITIONS[event].comes_from:
            events.append(changed(events[-1], event, "ann", AT))
    rows = [event.row() for event in events]
    chance.shuffle(rows)
    lake.append("incident_events", rows)
    assert lake.incidents.histories() == {"i-1": tuple(events)}
    assert rows_of(lake, "SELECT event, state, revision FROM incidents") == [
        {"event": "resolved", "state": "resolved", "revision": len(events)}
    ]


def test_a_row_that_is_no_transition_is_not_written(lake: Lake) -> None:
    resolved = changed(OPENED, "resolved", "ann", AT)
    opened(lake, OPENED, resolved)
    wrong = [
        replace(OPENED, incident_id="i-2", event="updated"),  # of an incident that was never opened
        replace(resolved, event="muted", state="muted", revision=3),  # of one that is closed
        replace(OPENED, event="updated", revision=1),  # older than what stands
        replace(resolved, event="reopened", state="muted", revision=3),  # leads elsewhere
    ]
    for event in wrong:
        with pytest.raises(AssertionError, match="cannot follow"):
            opened(lake, event)
    assert lake.incidents.histories() == {"i-1": (OPENED, resolved)}


def say(root: Path, verb: str, by: str, number: int) -> None:
    lake = Lake(Config(lake=root))
    values = {"reason": "DiskFull"} if verb == "correct" else {}
    for turn in range(number):
        change(lake, FrozenClock(AT), verb, "i-1", by, f"{by} {turn}", **values)


@pytest.mark.slow
def test_what_two_processes_say_at_once_is_all_kept() -> None:
    with TemporaryDirectory() as folder:
        lake = Lake(Config(lake=Path(folder) / "lake")).create()
        opened(lake, OPENED)
        context = get_context("spawn")
        people = [
            context.Process(target=say, args=(lake.root, verb, by, 10))
            for verb, by in (("confirm", "ann"), ("correct", "bob"))
        ]
        for person in people:
            person.start()
        for person in people:
            person.join()
        assert [person.exitcode for person in people] == [0, 0]
        (history,) = lake.incidents.histories().values()
        notes = sorted(event.note for event in history[1:])
        assert notes == sorted(f"{by} {turn}" for by in ("ann", "bob") for turn in range(10))
        assert [event.revision for event in history] == list(range(1, 22))
        assert (history[-1].is_confirmed, history[-1].reason) == (True, "DiskFull")


def test_a_person_reopens_assigns_and_comments(lake: Lake) -> None:
    opened(lake, OPENED)
    clock = FrozenClock(AT)
    change(lake, clock, "assign", "i-1", "ann", to="bob")
    change(lake, clock, "resolve", "i-1", "bob")
    change(lake, clock, "comment", "i-1", "ann", "it came back at night")
    change(lake, clock, "reopen", "i-1", "ann")
    (history,) = lake.incidents.histories().values()
    assert [(one.event, one.state, one.changed_by, one.assigned_to, one.is_held) for one in history] == [
        ("opened", "open", "gpulake", "", False),
        ("assigned", "open", "ann", "bob", False),
        ("resolved", "resolved", "bob", "bob", False),
        ("commented", "resolved", "ann", "bob", False),
        ("reopened", "open", "ann", "bob", True),
    ]
    assert change(lake, clock, "reopen", "i-1", "ann").skipped == [history[-1]]
    assert change(lake, clock, "assign", "i-1", "ann", to="bob").skipped == [history[-1]]
    with pytest.raises(UsageError, match="the comment is empty"):
        change(lake, clock, "comment", "i-1", "ann", " ")
