"""Findings and diagnoses about the same subject and time are one incident."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpulake.act.incidents.findings import as_of, sightings
from gpulake.act.incidents.grouping import MOST_MEMBERS, group
from gpulake.core.alert_settings import Incidents
from gpulake.core.incidents import Incident, acknowledged, histories, muted, resolved
from gpulake.core.sightings import Sighting

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SETTINGS = Incidents()
HOT = Sighting("gpu_hot", "n1/gpu3", AT - HOUR, AT, "warning", "GPU 3 of n1 is hot", cluster_id="c", node="n1")


class Past:
    """Events as a journal would have them."""

    def __init__(self, *events: Incident) -> None:
        self.events = list(events)

    def update(self, *seen: Sighting, now: datetime = AT, until: datetime | None = None) -> list[tuple[str, str]]:
        changes = group(self.histories, seen, as_of({"c": until or now}, now), SETTINGS, now)
        self.events += changes
        return [(change.event, change.state) for change in changes]

    @property
    def histories(self) -> dict[str, tuple[Incident, ...]]:
        rows = [_journalled(event.row()) for event in self.events]
        return histories(rows)

    def last(self, place: int = 0) -> Incident:
        return list(self.histories.values())[place][-1]


def _journalled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def failure(died_at: datetime = AT, **values: Any) -> Incident:
    reported: dict[str, Any] = {"subject": "/logs/a", "cluster_id": "c", "node": "n1", "job_id": "77", "opened_at": AT}
    return Incident("f-1", AT, "opened", "gpulake", reason="ECCError", last_seen_at=died_at, **(reported | values))


def test_a_finding_opens_an_incident_and_again_changes_nothing() -> None:
    past = Past()
    assert past.update(HOT) == [("opened", "open")]
    assert past.update(HOT) == []
    incident = past.last()
    assert (incident.kind, incident.severity, incident.cause) == ("gpu_hot", "warning", "GPU 3 of n1 is hot")
    assert (incident.began_at, incident.last_seen_at, incident.times_seen) == (AT - HOUR, AT, 1)
    assert incident.members == (HOT,)


def test_what_goes_on_moves_the_last_sighting_in_steps() -> None:
    past = Past()
    past.update(HOT)
    assert past.update(replace(HOT, ended_at=AT + timedelta(minutes=10))) == []
    later = replace(HOT, began_at=AT - 2 * HOUR, ended_at=AT + timedelta(minutes=30))
    assert past.update(later, now=AT + HOUR) == [("updated", "open")]
    incident = past.last()
    assert (incident.began_at, incident.last_seen_at) == (AT - 2 * HOUR, AT + timedelta(minutes=30))
    assert incident.times_seen == 1
    assert len(incident.members) == 1


def test_other_kinds_about_the_same_subject_belong_to_it_and_the_first_is_the_cause() -> None:
    past = Past()
    past.update(HOT)
    first = replace(HOT, kind="fan_slow", headline="the fan is slow", began_at=AT - 2 * HOUR, severity="critical")
    assert past.update(HOT, first) == [("updated", "open")]
    incident = past.last()
    assert incident.first_cause == "fan_slow: the fan is slow"
    assert (incident.kind, incident.severity, incident.times_seen) == ("gpu_hot", "critical", 2)
    assert past.update(HOT, first) == []


def test_other_subjects_clusters_and_times_are_other_incidents() -> None:
    past = Past()
    others = [
        replace(HOT, subject="n1/gpu4"),
        replace(HOT, cluster_id="d"),
        replace(HOT, began_at=AT - 9 * HOUR, ended_at=AT - 8 * HOUR),
    ]
    assert sorted(past.update(HOT, *others)) == [*[("opened", "open")] * 4, ("resolved", "resolved")]
    assert len(past.histories) == 4


def test_severity_rises_and_does_not_fall_while_it_lasts() -> None:
    past = Past()
    past.update(HOT)
    assert past.update(replace(HOT, severity="critical")) == [("updated", "open")]
    assert past.update(HOT) == []
    assert past.last().severity == "critical"


def test_an_incident_resolves_when_newer_data_lacks_it_not_when_data_is_missing() -> None:
    past = Past()
    past.update(HOT)
    later = AT + 9 * HOUR
    assert past.update(now=later, until=AT + HOUR) == []
    assert past.update(now=later, until=AT + 2 * HOUR) == [("resolved", "resolved")]
    assert past.last().note == "not seen since 2026-01-02 12:00 UTC"
    assert past.update(HOT, now=later) == []


def test_what_is_seen_again_soon_is_the_same_incident_and_later_another() -> None:
    past = Past()
    past.update(HOT)
    past.update(now=AT + 2 * HOUR)
    soon = replace(HOT, began_at=AT + HOUR, ended_at=AT + 3 * HOUR)
    assert past.update(HOT, soon, now=AT + 3 * HOUR) == [("reopened", "open")]
    assert past.last().times_seen == 2
    past.update(now=AT + 9 * HOUR)
    much_later = replace(HOT, began_at=AT + 8 * HOUR, ended_at=AT + 9 * HOUR)
    assert past.update(much_later, now=AT + 9 * HOUR) == [("opened", "open")]


def test_a_person_who_holds_it_open_is_heard() -> None:
    past = Past()
    past.update(HOT)
    past.events.append(acknowledged(past.last(), "ada", AT, is_held=True))
    assert past.update(now=AT + 99 * HOUR) == []
    past.events.append(resolved(past.last(), "ada", AT + 99 * HOUR))
    assert past.update(HOT, now=AT + 99 * HOUR) == []


def test_one_who_resolved_it_is_overruled_by_what_is_seen_well_after_that() -> None:
    past = Past()
    past.update(HOT)
    past.events.append(resolved(past.last(), "ada", AT + HOUR))
    for hours, expected in ((2, []), (3, []), (4, [("reopened", "open")])):
        now = AT + hours * HOUR
        assert past.update(replace(HOT, ended_at=now), now=now) == expected


def test_an_acknowledged_incident_stays_acknowledged_when_seen_again() -> None:
    past = Past()
    past.update(HOT)
    past.events.append(acknowledged(past.last(), "ada", AT))
    assert past.update(replace(HOT, severity="critical")) == [("updated", "acknowledged")]


def test_a_mute_ends_when_it_said_it_would() -> None:
    past = Past()
    past.update(HOT)
    past.events.append(muted(past.last(), "ada", AT, until=AT + HOUR))
    seen = replace(HOT, ended_at=AT + HOUR)
    assert past.update(seen, now=AT + timedelta(minutes=59)) == [("updated", "muted")]
    assert past.update(seen, now=AT + HOUR) == [("reopened", "open")]
    assert past.last().muted_until is None


def test_a_finding_about_the_node_of_a_failure_belongs_to_it() -> None:
    past = Past(failure(died_at=AT + HOUR))
    assert past.update(HOT, now=AT + HOUR) == [("updated", "open")]
    incident = past.last()
    assert (incident.incident_id, incident.reason) == ("f-1", "ECCError")
    assert incident.first_cause == "gpu_hot: GPU 3 of n1 is hot"
    assert incident.last_seen_at == AT + HOUR
    assert past.update(HOT, now=AT + HOUR) == []


def test_an_incident_that_a_failure_explains_later_becomes_part_of_it() -> None:
    past = Past()
    past.update(HOT)
    past.events.append(failure(died_at=AT + HOUR))
    assert past.update(HOT, now=AT + HOUR) == [("updated", "open"), ("resolved", "resolved")]
    hot, dead = past.last(0), past.last(1)
    assert (hot.merged_into, hot.note) == ("f-1", "it is part of incident f-1")
    assert dead.members == (HOT,)
    assert past.update(replace(HOT, ended_at=AT + HOUR), now=AT + HOUR) == []


def test_a_failure_elsewhere_or_at_another_time_is_not_joined() -> None:
    for other in (
        failure(died_at=AT + 9 * HOUR),
        failure(node="n2", died_at=AT),
        failure(cluster_id="d"),
        replace(failure(), last_seen_at=None),
        replace(failure(), state="resolved"),
    ):
        assert Past(other).update(HOT) == [("opened", "open")]


def test_failures_are_not_resolved_by_silence() -> None:
    assert Past(failure()).update(now=AT + 999 * HOUR) == []


def test_an_incident_keeps_its_first_member_and_the_last_ones() -> None:
    past = Past()
    many = [
        replace(HOT, kind=f"k{place:03}", began_at=AT - HOUR + timedelta(seconds=place), ended_at=AT)
        for place in range(3 * MOST_MEMBERS)
    ]
    past.update(*many)
    incident = past.last()
    assert incident.times_seen == 3 * MOST_MEMBERS
    assert [member.kind for member in incident.members] == ["k000", *(f"k{place:03}" for place in range(41, 60))]
    assert past.update(*many) == []


MOMENTS = st.integers(0, 40).map(lambda quarters: AT + timedelta(minutes=15 * quarters))
SEEN = st.builds(
    lambda kind, subject, one, other, severity: Sighting(kind, subject, min(one, other), max(one, other), severity),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["x", "y"]),
    MOMENTS,
    MOMENTS,
    st.sampled_from(["info", "warning", "critical"]),
)


@given(st.lists(st.lists(SEEN, max_size=5), min_size=1, max_size=4), st.integers(0, 40))
def test_the_same_again_never_changes_anything(builds: list[list[Sighting]], quarters: int) -> None:
    past = Past()
    now = AT + timedelta(hours=11)
    until = AT + timedelta(minutes=15 * quarters)
    for seen in builds:
        past.update(*seen, now=now, until=until)
        assert past.update(*seen, now=now, until=until) == []
    assert all(events[0].event == "opened" for events in past.histories.values())


def test_what_belongs_to_an_incident_that_is_over_does_not_go_over_to_one_that_comes_near() -> None:
    past = Past()
    first = replace(HOT, began_at=AT, ended_at=AT)
    later = replace(HOT, began_at=AT + 2.25 * HOUR, ended_at=AT + 2.25 * HOUR)
    between = replace(HOT, began_at=AT + HOUR / 4, ended_at=AT + HOUR / 4)
    now = AT + 11 * HOUR
    past.update(first, later, now=now, until=AT + 2 * HOUR)
    assert past.update(first, between, now=now, until=AT + 2 * HOUR) == [("updated", "open")]
    assert past.update(first, between, now=now, until=AT + 2 * HOUR) == []


def test_findings_of_a_build_are_sightings() -> None:
    reported = {"headline": "h", "detail": "d", "value": 0.0, "unit": "ratio"}
    rows = [
        {"kind": "ledger", "subject": "c", "day": "", **reported},
        {"kind": "failure_burst", "subject": "2026-01-01", "day": "2026-01-01", **reported},
        {"kind": "leak", "subject": "user", "day": "2026-01-01", **reported},
        {"kind": "now", "subject": "user", "day": "", **reported},
        {"kind": "hot", "subject": "g", "severity": "info", "began_at": AT, "ended_at": None, "node": "n", **reported},
        {
            "kind": "bad",
            "subject": "g",
            "severity": "x",
            "began_at": "2026-01-02T09:00:00+00:00",
            "day": "no",
            **reported,
        },
    ]
    found = list(sightings(rows, Incidents(critical_kinds=("leak",), info_kinds=("now",)), lambda _: AT))
    day = datetime(2026, 1, 1, tzinfo=UTC)
    assert [(one.kind, one.began_at, one.ended_at, one.severity, one.node) for one in found] == [
        ("failure_burst", day, day + timedelta(days=1), "warning", None),
        ("leak", day, AT, "critical", None),
        ("now", AT, AT, "info", None),
        ("hot", AT, AT, "info", "n"),
        ("bad", AT - 3 * HOUR, AT, "warning", None),
    ]


def test_a_critical_fault_of_a_node_stays_open_for_a_week_unless_somebody_resolves_it() -> None:
    lost = Sighting("node_fault", "n1", AT, AT, "critical", "n1 lost a GPU", cluster_id="c", node="n1")
    past = Past()
    assert past.update(lost) == [("opened", "open")]
    assert past.update(lost, now=AT + 167 * HOUR) == []
    assert past.update(lost, now=AT + 168 * HOUR) == [("resolved", "resolved")]
    mild = Past()
    assert mild.update(replace(lost, severity="warning")) == [("opened", "open")]
    assert mild.update(now=AT + 2 * HOUR) == [("resolved", "resolved")]


def test_a_critical_fault_that_lands_late_reopens_what_was_over_for_want_of_it() -> None:
    hot = replace(HOT, subject="n1")
    lost = Sighting("node_fault", "n1", AT - HOUR, AT - HOUR, "critical", "n1 lost a GPU", cluster_id="c", node="n1")
    past = Past()
    past.update(hot)
    assert past.update(hot, now=AT + 2 * HOUR) == [("resolved", "resolved")]
    assert past.update(hot, lost, now=AT + 3 * HOUR) == [("reopened", "open")]
    assert (past.last().severity, past.last().members) == ("critical", (hot, lost))
    assert past.update(hot, lost, now=AT + 167 * HOUR) == []
    assert past.update(hot, lost, now=AT + 168 * HOUR) == [("resolved", "resolved")]
    assert past.update(hot, lost, now=AT + 169 * HOUR) == []
    by_hand = Past()
    by_hand.update(hot)
    by_hand.events.append(resolved(by_hand.last(), "ada", AT + HOUR))
    assert by_hand.update(hot, lost, now=AT + 3 * HOUR) == [("reopened", "open")]
