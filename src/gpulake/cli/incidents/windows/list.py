"""gpulake incidents windows list: the windows that stand."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Those that are over or were removed, too.")
@lake_option
@json_option
def command(is_all: bool, lake: Path | None, as_json: bool) -> None:
    """List maintenance windows that are on or are to come.

    \b
    Example:  gpulake incidents windows list
    """
    from gpulake.cli._output import print_json, print_table
    from gpulake.cli.incidents.windows._showing import COLUMNS, window_line
    from gpulake.core.clock import SystemClock
    from gpulake.core.rows import as_document
    from gpulake.flow.incidents import read_windows
    from gpulake.lake import Lake

    now = SystemClock().now()
    every = read_windows(Lake(settings(lake=lake)).open()).values()
    shown = [one for one in every if is_all or not (one.is_removed or (one.ends_at is not None and one.ends_at <= now))]
    if as_json:
        print_json([as_document(one) for one in shown])
    else:
        print_table(COLUMNS, [window_line(one) for one in shown])
