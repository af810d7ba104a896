"""gpulake alerts: list alerts, send those that wait, and test sinks."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._verbs import Group
from gpulake.core.errors import ActError
from gpulake.core.rows import as_document
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.alerts.alert import Alert
    from gpulake.act.alerts.sending import Drained

COLUMNS = ("alert", "happened (UTC)", "state", "sink", "event", "severity", "tries", "title", "reason")


@click.group(cls=Group)
def command() -> None:
    """List alerts, send those that wait, and test sinks."""


@command.command("list")
@click.option(
    "--state",
    type=click.Choice(["queued", "sending", "sent", "failed", "dropped"]),
    help="Only those: failed ones are tried again, dropped ones are not.",
)
@click.option("--sink", help="Only those for this sink.")
@click.option("--summary", metavar="ID", help="Only those in this summary.")
@flow_options
def list_alerts(state: str | None, sink: str | None, summary: str | None, flow: Flow, as_json: bool) -> None:
    """List alerts as they stand, the newest first; why one failed, or was not sent.

    \b
    Example:  gpulake alerts list --state dropped
    """
    from gpulake.flow.alerting import read_alerts

    found = read_alerts(flow.lake.open(), state, sink, summary)
    if as_json:
        print_json([as_document(one) for one in found])
    else:
        print_table(COLUMNS, [_line(one) for one in found])


def _line(alert: Alert) -> tuple[Any, ...]:
    """Its texts may come from a log: control characters are replaced."""
    return (
        alert.alert_id,
        f"{alert.happened_at or alert.changed_at:%Y-%m-%d %H:%M}",
        alert.state,
        label(alert.sink, 40),
        label(alert.event, 20),
        label(alert.severity, 20),
        alert.tries,
        label(alert.title, 100),
        label(alert.reason, 200),
    )


@command.command("retry")
@click.argument("alerts", metavar="ID...", nargs=-1, required=True)
@flow_options
def retry(alerts: tuple[str, ...], flow: Flow, as_json: bool) -> None:
    """Queue alerts again that were dropped, and try those at once that failed.

    \b
    Example:  gpulake alerts retry a-3f2a
    """
    from gpulake.flow.alerting import retry_alerts

    again = retry_alerts(flow.lake.open(), flow.clock, alerts)
    if as_json:
        print_json([as_document(one) for one in again])
        return
    for one in again:
        click.echo(f"{one.alert_id}: queued; send it with: gpulake alerts send")


@command.command("send")
@click.option("--watch", "is_watching", is_flag=True, help="Repeat until it is stopped.")
@flow_options
def send(is_watching: bool, flow: Flow, as_json: bool) -> None:
    """Send the alerts that wait, each sink's in their order. What fails is kept, and tried again later.

    \b
    Example:  gpulake alerts send --watch
    """
    from gpulake.flow.alerting import watch_alerts

    if is_watching:
        for drained in watch_alerts(flow.lake.open(), flow.clock, time.sleep):
            if drained.sent or drained.dropped or drained.failures:
                click.echo(_summary(drained))
        return
    drained = flow.send_alerts()
    if as_json:
        print_json(asdict(drained))
    else:
        click.echo(_summary(drained))
    if drained.failures:
        failed = "; ".join(drained.failures.values())
        raise ActError(failed, "they are tried again; see: gpulake alerts list --state failed")


def _summary(drained: Drained) -> str:
    summaries = f" ({drained.summaries} summaries)" if drained.summaries else ""
    return f"sent {drained.sent}{summaries}, dropped {drained.dropped}, waiting {drained.waiting}"


@command.command("test")
@click.argument("sink")
@flow_options
def test_sink(sink: str, flow: Flow, as_json: bool) -> None:
    """Send a test alert to a sink of [alerts.sinks], and print the result.

    \b
    Example:  gpulake alerts test ops
    """
    from gpulake.flow.alerting import try_sink

    alert = try_sink(flow.lake.open(), flow.clock, sink)
    if as_json:
        print_json(as_document(alert))
    else:
        click.echo(f"sink {alert.sink} has accepted it: {alert.title}")
