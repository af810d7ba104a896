"""gpulake incidents update: makes incidents of what was found."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli.incidents._showing import print_all_changed
from gpulake.flow import Flow


@click.command()
@flow_options
def command(flow: Flow, as_json: bool) -> None:
    """Make incidents of the findings of the current build, and resolve those that are over. A build does it, too.

    \b
    Example:  gpulake incidents update
    """
    print_all_changed(flow.update_incidents(), as_json)
