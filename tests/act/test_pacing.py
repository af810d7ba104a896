"""Token buckets and waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.act.alerts.alert import Alert
from gpulake.act.alerts.pacing import Bucket, wait_after
from gpulake.act.alerts.sending import Sending
from gpulake.act.sinks import Setup
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import SinkError
from gpulake.lake import Lake

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_a_bucket_lets_a_burst_through_and_then_one_at_a_time() -> None:
    bucket = Bucket(SinkSettings(most_per_minute=6, burst=2), ())
    assert bucket.tokens(AT) == 2
    bucket.take(AT)
    bucket.take(AT)
    assert bucket.tokens(AT) == 0
    assert bucket.next_at(AT) == AT + 10 * SECOND
    assert bucket.tokens(AT + 10 * SECOND) == 1
    assert bucket.tokens(AT + timedelta(days=1)) == 2
    assert bucket.tokens(AT - timedelta(days=1)) == 0


@given(st.lists(st.integers(0, 600), max_size=60), st.integers(1, 30), st.integers(1, 10))
def test_a_bucket_never_lets_more_through_than_it_may(seconds: list[int], per_minute: int, burst: int) -> None:
    bucket = Bucket(SinkSettings(most_per_minute=per_minute, burst=burst), ())
    sent: list[datetime] = []
    for at in sorted(AT + second * SECOND for second in seconds):
        if bucket.tokens(at) >= 1:
            bucket.take(at)
            sent.append(at)
    for begin in sent:
        within = [at for at in sent if begin <= at < begin + timedelta(minutes=1)]
        assert len(within) <= burst + per_minute


def test_people_have_a_limit_where_none_is_set_and_programs_have_none() -> None:
    assert Bucket(SinkSettings(kind="webhook"), ()).is_unlimited
    assert not Bucket(SinkSettings(kind="apprise"), ()).is_unlimited
    assert Bucket(SinkSettings(kind="apprise", most_per_minute=0), ()).is_unlimited


@pytest.mark.slow
@given(st.integers(1, 2_000), st.text(max_size=20))
def test_waits_grow_up_to_a_bound_and_are_the_same_for_the_same_try(tries: int, name: str) -> None:
    settings = Alerts(first_wait_seconds=4, most_wait_seconds=100)
    longest = min(4 * 2 ** (tries - 1), 100)
    wait = wait_after(settings, name, tries).total_seconds()
    assert longest / 2 <= wait <= longest
    assert wait_after(settings, name, tries).total_seconds() == wait


def test_a_wish_to_wait_is_heard_within_bounds() -> None:
    settings = Alerts(first_wait_seconds=4, most_wait_seconds=100)
    assert wait_after(settings, "a", 1, 50.0) == timedelta(seconds=50)
    assert wait_after(settings, "a", 1, 5_000.0) == timedelta(seconds=100)
    assert wait_after(settings, "a", 9, 1.0) >= timedelta(seconds=50)


class Chat:
    """It keeps what it hears."""

    deduplicates = False
    heard: list[Alert]

    def __init__(self) -> None:
        self.heard = []

    def __call__(self, _: Setup) -> Chat:
        return self

    def send(self, alert: Alert) -> None:
        self.heard.append(alert)


def flood(lake: Lake, chat: Chat, count: int, **values: Any) -> Sending:
    rows = [
        Alert(f"a-{number:03}", AT, "queued", "ops", "opened", f"i-{number}", title=f"t{number}", happened_at=AT).row()
        for number in range(count)
    ]
    lake.append("alert_events", rows)
    settings = Alerts(sinks={"ops": SinkSettings(most_per_minute=6, burst=3, **values)})
    return Sending(lake, settings, FrozenClock(AT), {}, chat)


def test_above_the_limit_alerts_are_sent_in_one_summary(lake: Lake) -> None:
    chat = Chat()
    sending = flood(lake, chat, 30)
    drained = sending.drain()
    assert (drained.sent, drained.summaries, drained.waiting) == (30, 1, 0)
    assert [alert.title for alert in chat.heard] == ["t0", "t1", "[28 alerts] 28 warning"]
    query = "SELECT summary_id, count(*) AS n FROM alerts WHERE state = 'sent' GROUP BY 1 ORDER BY 2"
    counts = rows_of(lake, query)
    assert counts == [{"summary_id": "", "n": 2}, {"summary_id": chat.heard[2].alert_id, "n": 28}]


def test_without_a_token_alerts_wait_for_one(lake: Lake) -> None:
    chat = Chat()
    sending = flood(lake, chat, 3)
    assert sending.drain().sent == 3
    lake.append("alert_events", [Alert("a-x", AT, "queued", "ops", "opened", title="x", happened_at=AT).row()])
    drained = sending.drain()
    assert (drained.sent, drained.waiting, drained.next_at) == (0, 1, AT + 10 * SECOND)
    sending.clock.at = AT + 11 * SECOND  # type: ignore[attr-defined]
    assert sending.drain().sent == 1


def test_a_summary_that_fails_is_tried_again_as_it_was(lake: Lake) -> None:
    chat = Chat()
    sending = flood(lake, chat, 10)
    original = chat.send

    def refuse_summaries(alert: Alert) -> None:
        original(alert)
        if alert.event == "summary" and alert.tries == 1:
            raise SinkError("sink ops: busy")

    chat.send = refuse_summaries  # type: ignore[method-assign]
    drained = sending.drain()
    assert (drained.sent, drained.waiting) == (2, 8)
    more = Alert("a-more", AT, "queued", "ops", "opened", title="more", happened_at=AT)
    lake.append("alert_events", [more.row()])
    sending.clock.at = AT + timedelta(minutes=1)  # type: ignore[attr-defined]
    assert sending.drain().sent == 9
    first, again = [alert for alert in chat.heard if alert.event == "summary"]
    assert (first.alert_id, first.body) == (again.alert_id, again.body)
    assert chat.heard[-1].title == "more"
