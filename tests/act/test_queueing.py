"""Who is told of what: events, routes, mutes, windows, and the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpulake.act.alerts.alert import Alert, Outbox
from gpulake.act.alerts.queueing import Queueing
from gpulake.act.alerts.wording import MOST_BODY, MOST_TITLE, summary
from gpulake.act.incidents.windows import Window, added
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.incidents import Incident, acknowledged, changed, muted, resolved, unmuted

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HOT = Incident(
    *("i-1", AT, "opened", "gpulake", "gpu_hot"),
    severity="warning",
    subject="n1/gpu3",
    cluster_id="c",
    node="n1",
    opened_at=AT,
    cause="GPU 3 of n1 is hot",
    remedy="Look at its fan.",
    began_at=AT - HOUR,
    last_seen_at=AT,
)


def sinks(**values: Any) -> Alerts:
    return Alerts(sinks={"ops": SinkSettings(kind="webhook", **values)})


def queued(
    history: Sequence[Incident],
    settings: Alerts | None = None,
    now: datetime | None = None,
    windows: Sequence[Window] = (),
    outbox: Outbox | None = None,
    evidence: Sequence[str] = (),
) -> list[Alert]:
    at = now or history[-1].changed_at
    own = settings or sinks()
    return Queueing(own, windows, lambda _: evidence, at).queue({"i-1": history}, outbox or Outbox())


def reported(alerts: Sequence[Alert]) -> list[tuple[str, str, str]]:
    return [(alert.event, alert.state, alert.reason) for alert in alerts]


def worse(incident: Incident, at: datetime) -> Incident:
    return changed(incident, "updated", "gpulake", at, severity="critical")


def kept(*alerts: Alert) -> Outbox:
    outbox = Outbox()
    for alert in alerts:
        outbox.take(alert)
    return outbox


def test_alerts_follow_when_it_opens_worsens_reopens_and_resolves() -> None:
    history = [HOT, worse(HOT, AT + MINUTE)]
    history.append(changed(history[-1], "updated", "gpulake", AT + 2 * MINUTE))
    history.append(resolved(history[-1], "gpulake", AT + 3 * MINUTE))
    history.append(changed(history[-1], "reopened", "gpulake", AT + 4 * MINUTE))
    alerts = queued(history)
    assert [alert.event for alert in alerts] == ["opened", "worsened", "resolved", "reopened"]
    assert {alert.state for alert in alerts} == {"queued"}
    assert len({alert.alert_id for alert in alerts}) == 4
    assert queued(history, outbox=kept(*alerts)) == []


def test_queueing_the_same_incidents_is_idempotent() -> None:
    assert queued([HOT], now=AT) == queued([HOT], now=AT + HOUR)


def test_an_incident_that_was_already_over_causes_one_alert() -> None:
    (alert,) = queued([HOT, resolved(HOT, "gpulake", AT)])
    assert (alert.event, alert.is_over, alert.title) == ("opened", True, "[warning, over] GPU 3 of n1 is hot")


def test_a_resolution_goes_only_to_sinks_that_were_notified_before() -> None:
    history = [HOT, resolved(HOT, "ada", AT + MINUTE)]
    assert reported(queued(history, sinks(severities=("critical",)))) == []
    critical = [HOT, worse(HOT, AT + MINUTE)]
    critical.append(resolved(critical[-1], "ada", AT + 2 * MINUTE))
    assert [one.event for one in queued(critical, sinks(severities=("critical",)))] == ["worsened", "resolved"]
    assert [one.event for one in queued(critical, sinks(events=("opened",)))] == ["opened"]


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ({}, 1),
        ({"severities": ("warning", "info")}, 1),
        ({"severities": ("critical",)}, 0),
        ({"kinds": ("gpu_*",)}, 1),
        ({"kinds": ("ecc", "node_*")}, 0),
        ({"clusters": ("c",)}, 1),
        ({"clusters": ("d",)}, 0),
        ({"events": ("resolved",)}, 0),
    ],
)
def test_a_sink_has_what_it_asks_for(route: dict[str, Any], expected: int) -> None:
    assert len(queued([HOT], sinks(**route))) == expected


def test_every_sink_has_its_own_alert() -> None:
    alerts = queued([HOT], Alerts(sinks={"a": SinkSettings(), "b": SinkSettings()}))
    assert [alert.sink for alert in alerts] == ["a", "b"]
    assert len({alert.alert_id for alert in alerts}) == 2


def test_a_muted_incident_sends_no_alert_until_it_is_unmuted() -> None:
    quiet = muted(HOT, "ada", AT + MINUTE, until=AT + HOUR)
    history = [HOT, quiet, worse(quiet, AT + 2 * MINUTE)]
    assert reported(queued(history)) == [
        ("opened", "queued", ""),
        ("worsened", "dropped", "it is muted until 2026-01-02 13:00 UTC"),
    ]
    history.append(unmuted(history[-1], "ada", AT + 3 * MINUTE))
    assert reported(queued(history))[2:] == [("reopened", "queued", "")]


def test_an_acknowledged_incident_alerts_again_only_when_it_worsens() -> None:
    history = [HOT, acknowledged(HOT, "ada", AT + MINUTE)]
    assert [one.event for one in queued(history)] == ["opened"]
    history.append(worse(history[-1], AT + 2 * MINUTE))
    assert [one.event for one in queued(history)] == ["opened", "worsened"]


def test_a_window_suppresses_alerts_and_what_outlasts_it_is_sent() -> None:
    window = added("ada", AT - HOUR, node="n*", ends_at=AT + HOUR)
    (kept_back,) = queued([HOT], windows=[window])
    assert reported([kept_back]) == [("opened", "dropped", f"maintenance window {window.window_id}")]
    later = changed(HOT, "updated", "gpulake", AT + 2 * HOUR, last_seen_at=AT + 2 * HOUR)
    during = changed(HOT, "updated", "gpulake", AT + HOUR / 2, last_seen_at=AT + HOUR / 2)
    assert queued([HOT, during], windows=[window], outbox=kept(kept_back)) == []
    assert queued([HOT, during], windows=[window], outbox=kept(kept_back), now=AT + 9 * HOUR) == []
    (after,) = queued([HOT, later], windows=[window], outbox=kept(kept_back))
    assert reported([after]) == [("outlasted", "queued", "")]
    assert after.title == "[still: warning] GPU 3 of n1 is hot"
    assert queued([HOT, later], windows=[window], outbox=kept(kept_back, after), now=AT + 3 * HOUR) == []
    over = resolved(later, "gpulake", AT + 4 * HOUR)
    again = queued([HOT, later, over], windows=[window], outbox=kept(kept_back, after))
    assert reported(again) == [("resolved", "queued", "")]


def test_a_job_that_died_in_a_window_causes_no_alert_afterwards() -> None:
    window = added("ada", AT - HOUR, ends_at=AT + HOUR)
    dead = replace(HOT, kind="failure", began_at=AT - 99 * HOUR)
    (kept_back,) = queued([dead], windows=[window])
    assert kept_back.state == "dropped"
    assert queued([dead], windows=[window], outbox=kept(kept_back), now=AT + 9 * HOUR) == []


def test_what_is_old_is_not_news() -> None:
    old = replace(HOT, began_at=AT - 30 * HOUR, last_seen_at=AT - 30 * HOUR)
    assert reported(queued([old])) == [("opened", "dropped", "it was last seen 30 h ago")]
    assert reported(queued([replace(HOT, last_seen_at=None)], now=AT + 30 * HOUR)) == [
        ("opened", "dropped", "it happened 30 h ago")
    ]
    # A sink that is new is not told of all history.
    assert queued([HOT], now=AT + 50 * HOUR) == []


def test_the_default_words_say_why_what_to_do_and_where_to_look() -> None:
    settings = Alerts(sinks={"ops": SinkSettings()}, link="https://lake.example.org/{incident_id}")
    (alert,) = queued([HOT], settings, evidence=("92 °C for 40 minutes", "others at 60 °C"))
    assert alert.title == "[warning] GPU 3 of n1 is hot"
    assert alert.body.splitlines() == [
        "GPU 3 of n1 is hot",
        "Evidence:",
        "  92 °C for 40 minutes",
        "  others at 60 °C",
        "What to do: Look at its fan.",
        "Cluster: c",
        "Node: n1",
        "Subject: n1/gpu3",
        "Incident i-1, open, opened 2026-01-02 12:00 UTC",
        "Look further: gpulake incidents show i-1",
        "https://lake.example.org/i-1",
    ]


def test_a_failure_says_which_job_and_what_came_first() -> None:
    dead = replace(
        HOT, kind="failure", reason="ECCError", job_id="77", cause="ECC of GPU 3", first_cause="gpu_hot: hot"
    )
    (alert,) = queued([dead])
    assert alert.title == "[warning] job 77 failed: ECC of GPU 3"
    assert "Reason: ECCError\nFirst: gpu_hot: hot\n" in alert.body


def test_a_sink_may_have_its_own_templates() -> None:
    (alert,) = queued([HOT], sinks(title="{kind} {node}", body="{job_id}\n{what}: {remedy}\nfixed"))
    assert (alert.title, alert.body) == ("gpu_hot n1", "warning: Look at its fan.\nfixed")


def test_hostile_words_are_words() -> None:
    hostile = "\x1b[31m{incident_id}\r\nRESOLVED {node}\x07 " + "x" * 9_000
    (alert,) = queued([replace(HOT, cause=hostile, node=hostile, subject=hostile)], evidence=[hostile] * 99)
    assert len(alert.title) <= MOST_TITLE
    assert len(alert.body) <= MOST_BODY
    assert all(character.isprintable() or character == "\n" for character in alert.title + alert.body)
    assert "{incident_id}" in alert.title
    assert not any(line.startswith("RESOLVED") for line in alert.body.splitlines())


def test_a_summary_names_all_the_worst_first() -> None:
    alerts = [
        Alert(f"a-{number}", AT, "queued", "ops", event, f"i-{number}", severity, title=f"t{number}")
        for number, (event, severity) in enumerate(
            [("opened", "info"), ("resolved", "critical"), ("opened", "critical"), ("worsened", "warning")]
        )
    ]
    one = summary(alerts)
    assert (one.event, one.severity) == ("summary", "critical")
    assert one.title == "[4 alerts] 1 critical, 1 warning, 1 info, 1 resolved"
    assert one.body.splitlines() == [
        *("t2 (i-2)", "t3 (i-3)", "t0 (i-0)", "t1 (i-1)"),
        f"All of them: gpulake alerts list --summary {one.alert_id}",
    ]
    many = summary([replace(alerts[0], alert_id=f"a-{number}") for number in range(100)])
    assert many.body.splitlines()[-2] == "and 60 more"
    assert one.alert_id == summary(alerts).alert_id
