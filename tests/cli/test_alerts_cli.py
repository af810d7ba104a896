"""gpulake alerts, as its user meets it; and alerts in the course of a refresh."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.verbs import Verb
from conftest import rows_of
from diagnose.learning import record
from gpulake.act.alerts.alert import Alert
from gpulake.cli import root
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock, SystemClock
from gpulake.core.config import Config
from gpulake.core.errors import ActError, SinkError, UsageError
from gpulake.flow import Flow
from gpulake.flow.alerting import queue_alerts, watch_alerts
from gpulake.lake import Lake
from receiving import Receiver, listening_receiver

alerts = Verb("alerts")
document = alerts.document


@pytest.fixture
def server() -> Iterator[Receiver]:
    with listening_receiver() as own:
        yield own


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Receiver) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPULAKE_OPS_URL", f"{server.url}/s3cr3t-path")
    Path("gpulake.toml").write_text('[alerts.sinks.ops]\nkind = "webhook"\nurl_variable = "GPULAKE_OPS_URL"\n')


@pytest.fixture
def failed(lake: Lake) -> Lake:
    """A failure that was diagnosed just now, by hostile words."""
    hostile = "\x1b[31m[bold]x[/] password=hunter2 <!channel>"
    record(lake, "f-1", reason="RuntimeError", evidence=(hostile,))
    rows = [{**row, "changed_at": SystemClock().now()} for row in lake.journal("incident_events")]
    lake.append("incident_events", rows[-1:])
    return lake


def test_a_failure_is_queued_sent_and_listed(failed: Lake, server: Receiver) -> None:
    assert alerts(failed, "send").output == "sent 1, dropped 0, waiting 0\n"
    (request,) = server.requests
    assert request.path == "/s3cr3t-path"
    assert request.document["incident"]["id"] == "f-1"
    assert "hunter2" not in request.body.decode()
    assert "password=***" in request.document["body"]
    (row,) = document(failed, "list")
    assert (row["state"], row["sink"], row["event"], row["tries"]) == ("sent", "ops", "opened", 1)
    assert document(failed, "list", "--state", "queued") == []
    assert document(failed, "list", "--sink", "other") == []
    answer = alerts(failed, "list")
    assert "sent" in answer.output
    assert "\x1b[31m" not in answer.output
    assert alerts(failed, "send").output == "sent 0, dropped 0, waiting 0\n"
    assert "s3cr3t" not in (failed.root / "alerts.jsonl").read_text()


def test_a_sink_that_fails_is_an_error_that_says_what_is_kept(failed: Lake, server: Receiver) -> None:
    server.answer = (503, {}, b"s3cr3t-path is down")
    answer = alerts(failed, "send")
    assert isinstance(answer.exception, ActError)
    assert answer.exception.message == "sink ops: status 503, *** is down"
    assert answer.output.startswith("sent 0, dropped 0, waiting 1\n")
    (row,) = document(failed, "list", "--state", "failed")
    assert row["reason"] == "sink ops: status 503, *** is down"
    assert "queued; send it with" in alerts(failed, "retry", row["alert_id"]).output
    server.answer = (200, {}, b"")
    assert alerts(failed, "send").output == "sent 1, dropped 0, waiting 0\n"
    answer = alerts(failed, "retry", row["alert_id"])
    assert isinstance(answer.exception, UsageError)
    assert answer.exception.message.endswith("is sent")


def test_a_dead_letter_is_seen_and_can_be_sent_again(lake: Lake, server: Receiver) -> None:
    now = SystemClock().now()
    lake.append("alert_events", [Alert("a-dead", now, "dropped", "ops", "opened", reason="given up").row()])
    assert [row["reason"] for row in document(lake, "list", "--state", "dropped")] == ["given up"]
    assert document(lake, "retry", "a-de")[0]["state"] == "queued"
    assert alerts(lake, "send").output == "sent 1, dropped 0, waiting 0\n"
    assert server.taken == ["a-dead"]


def test_a_sink_is_tested(lake: Lake, server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert alerts(lake, "test", "ops").output == "sink ops has accepted it: [test] gpulake can reach you\n"
    assert server.requests[0].document["event"] == "test"
    assert document(lake, "test", "ops")["state"] == "sent"
    answer = alerts(lake, "test", "opps")
    assert isinstance(answer.exception, UsageError)
    assert answer.exception.hint == "did you mean 'ops'?"
    monkeypatch.delenv("GPULAKE_OPS_URL")
    answer = alerts(lake, "test", "ops")
    assert isinstance(answer.exception, SinkError)
    assert answer.exception.message == "sink ops: the environment variable GPULAKE_OPS_URL is not set"
    Path("gpulake.toml").write_text('[alerts.sinks.ops]\nkind = "webhok"\n')
    answer = alerts(lake, "test", "ops")
    assert isinstance(answer.exception, SinkError)
    assert answer.exception.hint == "did you mean 'webhook'?"


def test_an_incident_that_a_person_resolves_alerts_the_sinks_notified_before(failed: Lake, server: Receiver) -> None:
    alerts(failed, "send")
    resolve = ["incidents", "resolve", "f-1", "--note", "mended", "--lake", str(failed.root)]
    assert CliRunner().invoke(root, resolve).exit_code == 0
    assert [row["state"] for row in document(failed, "list", "--state", "queued")] == ["queued"]
    alerts(failed, "send")
    assert [request.document["event"] for request in server.requests] == ["opened", "resolved"]
    assert "Note: mended" in server.requests[1].document["body"]


@pytest.mark.slow
def test_a_refresh_sends_what_it_found_and_is_not_hurt_by_a_sink_that_is_down(
    built_lake: Config, server: Receiver
) -> None:
    # The trace is decades old: its incidents are told of only where that counts as news.
    sinks = {"ops": SinkSettings(kind="webhook", url=server.url)}
    config = Config(lake=built_lake.lake, threads=1, alerts=Alerts(sinks=sinks, most_stale_hours=1e6))
    server.answer = (500, {}, b"")
    result = Flow(config).refresh([], None)
    assert result.build.is_new is False
    assert len(server.requests) == 1
    query = "SELECT status, detail.waiting > 0 AS waits FROM runs WHERE step = 'alerts'"
    assert rows_of(Lake(config), query) == [{"status": "succeeded", "waits": True}]
    server.answer = (200, {}, b"")
    clock = FrozenClock(SystemClock().now() + timedelta(minutes=10))
    Flow(config, clock=clock).refresh([], None)
    found = rows_of(Lake(config), "SELECT count(*) AS n FROM incidents")
    assert len(server.taken) == found[0]["n"]


def test_old_traces_alarm_nobody(built_lake: Config, server: Receiver) -> None:
    config = Config(lake=built_lake.lake, threads=1, alerts=Alerts(sinks={"ops": SinkSettings("webhook", server.url)}))
    Flow(config).refresh([], None)
    assert server.requests == []
    states = rows_of(
        Lake(config), "SELECT DISTINCT state, reason LIKE 'it was last seen % days ago' AS why FROM alerts"
    )
    assert states == [{"state": "dropped", "why": True}]


def test_without_sinks_nothing_is_looked_at(lake: Lake, clock: FrozenClock) -> None:
    record(lake, "f-1", reason="RuntimeError")
    assert queue_alerts(lake, clock) == []
    assert not (lake.root / "alerts.jsonl").exists()


def test_watching_goes_on_when_something_is_due(failed: Lake, server: Receiver) -> None:
    clock = FrozenClock(SystemClock().now())
    waits: list[float] = []
    config = Config(lake=failed.root, threads=1, alerts=Alerts(sinks={"ops": SinkSettings("webhook", server.url)}))

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.at += timedelta(seconds=seconds)

    server.answer = (500, {}, b"")
    watch = watch_alerts(Lake(config), clock, wait)
    assert next(watch).sent == 0
    server.answer = (200, {}, b"")
    assert [next(watch).sent for _ in range(3)] == [1, 0, 0]
    assert 2.5 <= waits[0] <= 5.0
    assert waits[1:] == [10.0, 10.0]
