"""gpulake alerts retry: tries dropped and failed alerts again."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("alerts", metavar="ID...", nargs=-1, required=True)
@lake_option
@json_option
def command(alerts: tuple[str, ...], lake: Path | None, as_json: bool) -> None:
    """Queue alerts again that were dropped, and try those at once that failed.

    \b
    Example:  gpulake alerts retry a-3f2a
    """
    from gpulake.cli._output import print_json
    from gpulake.core.clock import SystemClock
    from gpulake.core.rows import as_document
    from gpulake.flow.alerting import retry_alerts
    from gpulake.lake import Lake

    again = retry_alerts(Lake(settings(lake=lake)).open(), SystemClock(), alerts)
    if as_json:
        print_json([as_document(one) for one in again])
        return
    for one in again:
        click.echo(f"{one.alert_id}: queued; send it with: gpulake alerts send")
