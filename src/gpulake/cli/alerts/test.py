"""gpulake alerts test: sends a test alert to a sink."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("sink")
@lake_option
@json_option
def command(sink: str, lake: Path | None, as_json: bool) -> None:
    """Send a test alert to a sink of [alerts.sinks], and print the result.

    \b
    Example:  gpulake alerts test ops
    """
    from gpulake.cli._output import print_json
    from gpulake.core.clock import SystemClock
    from gpulake.core.rows import as_document
    from gpulake.flow.alerting import try_sink
    from gpulake.lake import Lake

    alert = try_sink(Lake(settings(lake=lake)).open(), SystemClock(), sink)
    if as_json:
        print_json(as_document(alert))
    else:
        click.echo(f"sink {alert.sink} has accepted it: {alert.title}")
