"""gpulake alerts list: alerts that were sent, wait or were dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.core.rows import as_document
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.alerts.alert import Alert

COLUMNS = ("alert", "happened (UTC)", "state", "sink", "event", "severity", "tries", "title", "reason")


@click.command()
@click.option(
    "--state",
    type=click.Choice(["queued", "sending", "sent", "failed", "dropped"]),
    help="Only those: failed ones are tried again, dropped ones are not.",
)
@click.option("--sink", help="Only those for this sink.")
@click.option("--summary", metavar="ID", help="Only those in this summary.")
@flow_options
def command(state: str | None, sink: str | None, summary: str | None, flow: Flow, as_json: bool) -> None:
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
