"""gpulake incidents windows remove: alerts are sent again."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import by_option


@click.command()
@click.argument("window", metavar="ID")
@by_option
@lake_option
@json_option
def command(window: str, by: str, lake: Path | None, as_json: bool) -> None:
    """Remove a maintenance window. The beginning of its id will do, where it is the only one.

    \b
    Example:  gpulake incidents windows remove w-3f2a
    """
    from gpulake.cli._output import print_json
    from gpulake.core.clock import SystemClock
    from gpulake.core.rows import as_document
    from gpulake.flow.incidents import remove_window
    from gpulake.lake import Lake

    gone = remove_window(Lake(settings(lake=lake)).open(), SystemClock(), window, by)
    if as_json:
        print_json(as_document(gone))
    else:
        click.echo(f"{gone.window_id}: removed")
