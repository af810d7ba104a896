"""gpulake alerts list: alerts that were sent, wait or were dropped."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.option(
    "--state",
    type=click.Choice(["queued", "sending", "sent", "failed", "dropped"]),
    help="Only those: failed ones are tried again, dropped ones are not.",
)
@click.option("--sink", help="Only those for this sink.")
@click.option("--summary", metavar="ID", help="Only those in this summary.")
@lake_option
@json_option
def command(state: str | None, sink: str | None, summary: str | None, lake: Path | None, as_json: bool) -> None:
    """List alerts as they stand, the newest first; why one failed, or was not sent.

    \b
    Example:  gpulake alerts list --state dropped
    """
    from gpulake.cli._output import print_json, print_table
    from gpulake.cli.alerts._showing import COLUMNS, alert_line
    from gpulake.core.rows import as_document
    from gpulake.flow.alerting import read_alerts
    from gpulake.lake import Lake

    found = read_alerts(Lake(settings(lake=lake)).open(), state, sink, summary)
    if as_json:
        print_json([as_document(one) for one in found])
    else:
        print_table(COLUMNS, [alert_line(one) for one in found])
