"""gpulake incidents unmute: people are told of it again."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import by_option


@click.command()
@click.argument("incidents", metavar="ID...", nargs=-1, required=True)
@click.option("--note", default="", help="What others should know.")
@by_option
@lake_option
@json_option
def command(
    incidents: tuple[str, ...],
    note: str,
    by: str,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Let people be told of incidents again that were muted.

    \b
    Example:  gpulake incidents unmute i-3f2a
    """
    from gpulake.cli.incidents._showing import print_all_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import unmute
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    changed = unmute(place, SystemClock(), incidents, by, note)
    print_all_changed(changed, as_json)
