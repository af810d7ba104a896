"""A sink that is down loses nothing and repeats nothing, and nor does a crash, whenever it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import rows_of
from examples import cases
from gpulake.act.alerts.alert import Alert, Outbox
from gpulake.act.alerts.sending import Drained, Sending
from gpulake.act.sinks import SINKS, Setup, Sink
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import SinkError
from gpulake.core.incidents import Incident
from gpulake.flow.alerting import queue_alerts
from gpulake.lake import Lake
from receiving import Receiver, listening_receiver, receiver

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MANY = 500


def lake_at(folder: Path, url: str, hours: float = 24.0, **values: Any) -> Lake:
    sinks = {"ops": SinkSettings(kind="webhook", url=url, **values)}
    return Lake(Config(lake=folder, threads=1, alerts=Alerts(sinks=sinks, give_up_after_hours=hours))).create()


def opened(lake: Lake, count: int, at: datetime = AT, begin: int = 0) -> None:
    """Incidents, a second apart."""
    rows = [
        Incident(
            *(f"i-{number:04}", at + timedelta(seconds=number), "opened", "gpulake", "gpu_hot"),
            subject=f"n{number}",
            cause=f"n{number} is hot",
            opened_at=at,
        ).row()
        for number in range(begin, begin + count)
    ]
    lake.append("incident_events", rows)


def sending(lake: Lake, clock: FrozenClock) -> Sending:
    return Sending(lake, lake.config.alerts, clock, {})


def incidents_of(own: Receiver) -> list[str]:
    """In the order in which they came, each key once."""
    found = {request.headers["idempotency-key"]: request.document["incident"]["id"] for request in own.requests}
    return [found[key] for key in own.taken]


def go_on(clock: FrozenClock, drained: Drained) -> None:
    """The clock moves to when something is due."""
    assert drained.next_at is not None
    clock.at = max(drained.next_at, clock.at)


@pytest.mark.slow
def test_a_sink_that_is_down_for_an_hour_has_500_alerts_once_and_in_order(tmp_path: Path) -> None:
    clock = FrozenClock(AT + timedelta(minutes=10))
    with receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url)
        opened(lake, MANY)
        assert len(queue_alerts(lake, clock)) == MANY
        down_until = clock.at + timedelta(hours=1)
        tries = 0
        while clock.at < down_until:
            drained = sending(lake, clock).drain()
            assert (drained.sent, drained.waiting) == (0, MANY)
            assert drained.failures == {"ops": "sink ops: no connection: Connection refused"}
            tries += 1
            go_on(clock, drained)
        # At first often, then every few minutes: not once for each of those that wait.
        assert 10 <= tries <= 40
        with own.listening():
            drained = sending(lake, clock).drain()
            assert (drained.sent, drained.waiting, drained.failures) == (MANY, 0, {})
            assert sending(lake, clock).drain().sent == 0
        assert len(own.requests) == MANY
        assert incidents_of(own) == [f"i-{number:04}" for number in range(MANY)]
    states = rows_of(lake, "SELECT state, count(*) AS n, max(tries) AS tries FROM alerts GROUP BY state")
    assert states == [{"state": "sent", "n": MANY, "tries": tries + 1}]


class Killed(BaseException):
    """What kill -9 does, as far as a test in one process can."""


class Mortal:
    """A lake whose process dies at the given step: before a write, in the midst of one, or behind it."""

    def __init__(self, lake: Lake, lives: int) -> None:
        self._lake = lake
        self._lives = lives
        self.config = lake.config
        self.journal = lake.journal
        self.alone = lake.alone
        self.incidents = lake.incidents

    def step(self) -> None:
        self._lives -= 1
        if self._lives == 0:
            raise Killed

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.step()
        if self._lives == 1:
            self._torn(table, rows)
        self._lake.append(table, rows)
        self.step()

    def _torn(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Some of the bytes are on the disk, and the rest is not."""
        path = self._lake.root / {"alert_events": "alerts.jsonl", "incident_events": "incidents.jsonl"}[table]
        before = path.read_bytes() if path.exists() else b""
        self._lake.append(table, rows)
        written = path.read_bytes()
        path.write_bytes(written[: len(before) + 2 * (len(written) - len(before)) // 3])
        raise Killed


def mortal_sink(mortal: Mortal, is_forgetful: bool = False) -> Any:
    """It may die before the request, or after the answer; one that is forgetful loses the answer."""

    class Dying:
        def __init__(self, setup: Setup) -> None:
            self._own = SINKS.get("webhook")(setup)
            self.deduplicates = True

        def send(self, alert: Alert) -> None:
            mortal.step()
            self._own.send(alert)
            mortal.step()
            if is_forgetful and int(alert.alert_id[-1], 16) % 2 and alert.tries == 1:
                raise SinkError("sink ops: no answer within 10 seconds")

    def make(setup: Setup) -> Sink:
        return Dying(setup)

    return make


def run_until_done(lake: Lake, clock: FrozenClock, lives: list[int], is_forgetful: bool = False, count: int = 6) -> int:
    """Each life queues and sends until it is killed; the last one lives for ever."""
    deaths = 0
    for place, life in enumerate([*lives, 10**9]):
        mortal = Mortal(lake, life)
        try:
            if place == 0 or not lake.journal("incident_events"):
                opened(lake, count)
            queue_alerts(mortal, clock)  # type: ignore[arg-type]
            while True:
                made = mortal_sink(mortal, is_forgetful)
                drained = Sending(mortal, lake.config.alerts, clock, {}, made).drain()
                if not drained.waiting:
                    break
                go_on(clock, drained)
        except Killed:
            deaths += 1
    return deaths


@pytest.mark.slow
@settings(max_examples=cases(30))
@given(st.lists(st.integers(1, 40), max_size=4), st.booleans())
def test_a_crash_at_any_point_changes_nothing(lives: list[int], is_forgetful: bool) -> None:
    with TemporaryDirectory() as folder, listening_receiver() as own:
        clock = FrozenClock(AT + timedelta(minutes=1))
        lake = lake_at(Path(folder) / "lake", own.url)
        run_until_done(lake, clock, lives, is_forgetful)
        assert incidents_of(own) == [f"i-{number:04}" for number in range(6)]
        outbox = Outbox(lake.journal("alert_events"))
        assert [alert.state for alert in outbox] == ["sent"] * 6
        _has_the_same_under_the_same_key(own)


def _has_the_same_under_the_same_key(own: Receiver) -> None:
    reported = {request.headers["idempotency-key"]: request.body for request in own.requests}
    assert all(reported[request.headers["idempotency-key"]] == request.body for request in own.requests)


@pytest.mark.slow
@settings(max_examples=cases(25))
@given(st.lists(st.integers(1, 25), max_size=4))
def test_a_crash_at_any_point_tells_each_alert_once_though_they_are_folded(lives: list[int]) -> None:
    with TemporaryDirectory() as folder, listening_receiver() as own:
        clock = FrozenClock(AT + timedelta(minutes=1))
        lake = lake_at(Path(folder) / "lake", own.url, most_per_minute=2, burst=3)
        run_until_done(lake, clock, lives, count=12)
        assert reported_incidents(own) == [f"i-{number:04}" for number in range(12)]
        assert {alert.state for alert in Outbox(lake.journal("alert_events"))} == {"sent"}
        _has_the_same_under_the_same_key(own)


def reported_incidents(own: Receiver) -> list[str]:
    """Of each message that was taken, the incidents that it tells of."""
    bodies = {request.headers["idempotency-key"]: request.document for request in own.requests}
    found: list[str] = []
    for key in own.taken:
        document = bodies[key]
        if document["event"] != "summary":
            found.append(document["incident"]["id"])
            continue
        lines = document["body"].splitlines()
        found += [line.rpartition("(")[2].rstrip(")") for line in lines if line.endswith(")")]
    return found


KILLED = """
import os, sys
from datetime import datetime
from pathlib import Path
sys.path[:0] = {paths!r}
from gpulake.core.clock import FrozenClock
from test_alert_faults import lake_at, sending
from gpulake.flow.alerting import queue_alerts
lake = lake_at(Path(sys.argv[1]), sys.argv[2])
clock = FrozenClock(datetime.fromisoformat(sys.argv[3]))
queue_alerts(lake, clock)
sending(lake, clock).drain()
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_sends_changes_nothing(tmp_path: Path) -> None:
    """The receiver kills it after it has taken an alert and before it has answered: nobody can know it was taken."""
    at = AT + timedelta(minutes=1)
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *filter(None, sys.path)]
    script = KILLED.format(paths=paths)
    with receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url)
        opened(lake, 8)
        victims: list[subprocess.Popen[bytes]] = []
        take = own.handle

        def kill_sometimes(request: Any) -> Any:
            answer = take(request)
            if len(own.requests) in (3, 6):
                os.kill(victims[-1].pid, signal.SIGKILL)
                victims[-1].wait()
            return answer

        own.handle = kill_sometimes  # type: ignore[method-assign]
        with own.listening():
            for expected in (-9, -9, 0):
                arguments = [sys.executable, "-c", script, str(lake.root), own.url, at.isoformat()]
                victims.append(subprocess.Popen(arguments))
                assert victims[-1].wait(60) == expected
        assert incidents_of(own) == [f"i-{number:04}" for number in range(8)]
        assert len(own.requests) == 10
        assert [alert.state for alert in Outbox(lake.journal("alert_events"))] == ["sent"] * 8


def test_a_sink_that_cannot_deduplicate_is_warned_of_a_repeat(lake: Lake) -> None:
    alert = Alert("a-1", AT, "queued", "ops", "opened", title="t", body="b", happened_at=AT)
    lake.append("alert_events", [alert.row(), alert.at(AT, "sending", tries=1).row()])
    heard: list[str] = []

    class Chat:
        deduplicates = False

        def __init__(self, _: Setup) -> None:
            pass

        def send(self, alert: Alert) -> None:
            heard.append(alert.body)

    own = Alerts(sinks={"ops": SinkSettings(kind="chat")})
    Sending(lake, own, FrozenClock(AT), {}, Chat).drain()
    assert heard == ["b\nThis may be a repeat: the sender was stopped before it was known to have arrived."]


def test_what_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with listening_receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url)
        clock = FrozenClock(AT + timedelta(minutes=1))
        opened(lake, 3)
        queue_alerts(lake, clock)
        take = own.handle

        def picky(request: Any) -> Any:
            take(request)
            return (422, {}, b"no") if request.document["incident"]["id"] == "i-0001" else own.answer

        own.handle = picky  # type: ignore[method-assign]
        drained = sending(lake, clock).drain()
        assert (drained.sent, drained.dropped, drained.waiting) == (2, 1, 0)
    reasons = rows_of(lake, "SELECT incident_id, reason FROM alerts WHERE state = 'dropped'")
    assert reasons == [{"incident_id": "i-0001", "reason": "refused: sink ops: status 422, no"}]


def test_what_a_sink_never_takes_is_given_up_and_said_to_be(tmp_path: Path) -> None:
    with receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url, hours=2)
        clock = FrozenClock(AT + timedelta(minutes=1))
        opened(lake, 1)
        queue_alerts(lake, clock)
        drained = sending(lake, clock).drain()
        while drained.waiting:
            go_on(clock, drained)
            drained = sending(lake, clock).drain()
        assert timedelta(hours=2) <= clock.at - AT <= timedelta(hours=2, minutes=6)
    (alert,) = Outbox(lake.journal("alert_events"))
    assert alert.state == "dropped"
    assert alert.reason == f"given up after {alert.tries} tries: sink ops: no connection: Connection refused"


def test_a_broken_plug_costs_only_its_own_alerts(lake: Lake) -> None:
    for name in ("bad", "ops"):
        lake.append("alert_events", [Alert(f"a-{name}", AT, "queued", name, "opened", happened_at=AT).row()])

    class Plug:
        deduplicates = True

        def __init__(self, setup: Setup) -> None:
            self._name = setup.name

        def send(self, alert: Alert) -> None:
            if self._name == "bad":
                raise KeyError(f"a-secret of {alert.sink}")

    own = Alerts(sinks={"bad": SinkSettings(), "ops": SinkSettings()})
    drained = Sending(lake, own, FrozenClock(AT), {}, Plug).drain()
    assert (drained.sent, drained.failures) == (1, {"bad": "sink bad: it broke: KeyError"})


def test_alerts_of_a_sink_that_is_no_more_wait_and_are_spoken_of(lake: Lake) -> None:
    lake.append("alert_events", [Alert("a-1", AT, "queued", "gone", "opened", happened_at=AT).row()])
    drained = Sending(lake, Alerts(), FrozenClock(AT), {}).drain()
    assert drained.waiting == 1
    assert drained.failures == {"gone": "sink gone: it is not in the settings, and alerts are waiting for it"}


def test_two_who_queue_at_once_queue_the_same_and_it_is_sent_once(tmp_path: Path) -> None:
    with listening_receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url)
        clock = FrozenClock(AT + timedelta(minutes=1))
        opened(lake, 2)
        alerts = queue_alerts(lake, clock)
        lake.append("alert_events", [alert.row() for alert in alerts])
        assert sending(lake, clock).drain().sent == 2
        # One who was slow writes what he had seen before.
        lake.append("alert_events", [alert.row() for alert in alerts])
        assert sending(lake, clock).drain().sent == 0
        assert len(own.requests) == 2
    assert rows_of(lake, "SELECT DISTINCT state FROM alerts") == [{"state": "sent"}]


def test_a_clock_that_is_set_back_neither_repeats_nor_hides(tmp_path: Path) -> None:
    with listening_receiver() as own:
        lake = lake_at(tmp_path / "lake", own.url)
        clock = FrozenClock(AT + timedelta(minutes=1))
        opened(lake, 2)
        queue_alerts(lake, clock)
        clock.at = AT - timedelta(days=1)
        assert sending(lake, clock).drain().sent == 2
        assert sending(lake, clock).drain().sent == 0
    assert [json.loads(request.body)["id"] for request in own.requests] == own.taken
    states = rows_of(lake, "SELECT state FROM alerts")
    assert states == [{"state": "sent"}] * 2


def test_rows_that_are_none_of_ours_are_left_out() -> None:
    alert = Alert("a-1", AT, "queued", "ops", "opened")
    row = {**alert.row(), "changed_at": AT.isoformat()}
    strange = [{}, {**row, "state": "lost"}, {**row, "changed_at": "now"}, {**row, "changed_at": "2026-01-01"}]
    assert list(Outbox([*strange, row])) == [alert]
    assert replace(alert, state="sent") not in list(Outbox([row]))
