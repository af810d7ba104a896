"""A real Alertmanager on loopback takes what the sink sends."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from contracts.test_sinks import ALERT, HOSTILE
from gpulake.act.sinks import SINKS, Setup, Sink
from gpulake.core.alert_settings import SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import SinkError

ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[int]:
    """A real one on loopback, without peers; its port."""
    if ALERTMANAGER is None:
        pytest.skip("no Alertmanager on this machine: apt-get install prometheus-alertmanager")
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    flags = [f"--config.file={tmp_path / 'am.yml'}", f"--storage.path={tmp_path}", "--cluster.listen-address="]
    with subprocess.Popen([ALERTMANAGER, *flags, f"--web.listen-address=127.0.0.1:{port}"]) as process:
        try:
            yield port
        finally:
            process.terminate()


def test_a_real_alertmanager_has_one_alert_until_it_is_resolved(alertmanager: int) -> None:
    now = datetime.now(UTC)
    own = _alertmanager_sink(alertmanager)
    alert = replace(ALERT, severity="warning", happened_at=now, began_at=now - timedelta(hours=1), link="http://h/i-1")
    _patiently(lambda: own.send(alert))
    own.send(alert)
    (reported,) = _alerts_of(alertmanager)
    assert reported["labels"] == {
        "alertname": "gpulake_gpu_hot",
        "source": "gpulake",
        "severity": "warning",
        "incident_id": "i-1",
        "cluster": "c",
        "node": "n1",
    }
    assert reported["annotations"] == {"summary": alert.title, "description": alert.body}
    assert datetime.fromisoformat(reported["startsAt"]) == (now - timedelta(hours=1)).replace(
        microsecond=now.microsecond // 1000 * 1000
    )
    assert (reported["status"]["state"], reported["generatorURL"]) == ("active", "http://h/i-1")
    own.send(replace(alert, event="worsened", severity="critical", happened_at=datetime.now(UTC)))
    _patiently(lambda: _expect(alertmanager, ["critical"]))
    own.send(replace(alert, event="resolved", severity="critical", happened_at=datetime.now(UTC)))
    _patiently(lambda: _expect(alertmanager, []))
    own.send(replace(alert, event="reopened", happened_at=datetime.now(UTC)))
    _patiently(lambda: _expect(alertmanager, ["warning"]))


def test_a_real_alertmanager_takes_hostile_words(alertmanager: int) -> None:
    now = datetime.now(UTC)
    hostile = replace(ALERT, title=HOSTILE, body=f"{HOSTILE}\n{HOSTILE}", node=HOSTILE, kind=HOSTILE)
    hostile = replace(hostile, happened_at=now, began_at=now, link=f"http://h/{HOSTILE}")
    own = _alertmanager_sink(alertmanager)
    _patiently(lambda: own.send(hostile))
    (reported,) = _alerts_of(alertmanager)
    assert reported["annotations"] == {"summary": HOSTILE, "description": hostile.body}
    assert reported["labels"]["node"] == HOSTILE.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\N{REPLACEMENT CHARACTER}")


def _alertmanager_sink(port: int) -> Sink:
    settings = SinkSettings(kind="alertmanager", url=f"http://127.0.0.1:{port}")
    return SINKS.get("alertmanager")(Setup("ops", settings, {}, FrozenClock(datetime.now(UTC))))


def _expect(port: int, severities: list[str]) -> None:
    """An alert ends a moment after it was told to: by its own clock, in milliseconds."""
    found = [alert["labels"]["severity"] for alert in _alerts_of(port)]
    if found != severities:
        raise SinkError(f"Alertmanager has {found}, not {severities}")


def _patiently(act: Callable[[], None]) -> None:
    for _ in range(100):
        with suppress(SinkError):
            act()
            return
        threading.Event().wait(0.1)
    act()


def _alerts_of(port: int) -> list[Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/v2/alerts")
    found: list[Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found
