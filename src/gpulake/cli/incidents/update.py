"""gpulake incidents update: makes incidents of what was found."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@lake_option
@json_option
def command(lake: Path | None, as_json: bool) -> None:
    """Make incidents of the findings of the current build, and resolve those that are over. A build does it, too.

    \b
    Example:  gpulake incidents update
    """
    from gpulake.cli.incidents._showing import print_all_changed
    from gpulake.flow import Flow

    print_all_changed(Flow(settings(lake=lake)).update_incidents(), as_json)
