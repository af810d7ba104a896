"""gpulake alerts test: sends a test alert to a sink."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.core.rows import as_document
from gpulake.flow import Flow


@click.command()
@click.argument("sink")
@flow_options
def command(sink: str, flow: Flow, as_json: bool) -> None:
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
