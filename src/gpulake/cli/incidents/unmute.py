"""gpulake incidents unmute: people are told of it again."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import settings
from gpulake.cli.incidents._changing import change_options, ids_argument


@click.command()
@ids_argument
@change_options
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
    changes = unmute(place, SystemClock(), incidents, by, note)
    print_all_changed(changes.made, as_json, changes.skipped)
