"""gpulake alerts retry: tries dropped and failed alerts again."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.core.rows import as_document
from gpulake.flow import Flow


@click.command()
@click.argument("alerts", metavar="ID...", nargs=-1, required=True)
@flow_options
def command(alerts: tuple[str, ...], flow: Flow, as_json: bool) -> None:
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
