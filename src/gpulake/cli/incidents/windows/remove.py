"""gpulake incidents windows remove: alerts are sent again."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli._words import by_option
from gpulake.core.rows import as_document
from gpulake.flow import Flow


@click.command()
@click.argument("window", metavar="ID")
@by_option
@flow_options
def command(window: str, by: str, flow: Flow, as_json: bool) -> None:
    """Remove a maintenance window. The beginning of its id will do, where it is the only one.

    \b
    Example:  gpulake incidents windows remove w-3f2a
    """
    from gpulake.flow.incidents import remove_window

    gone = remove_window(flow.lake.open(), flow.clock, window, by)
    if as_json:
        print_json(as_document(gone))
    else:
        click.echo(f"{gone.window_id}: removed")
