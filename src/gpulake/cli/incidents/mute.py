"""gpulake incidents mute: nobody is told of it for a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click

from gpulake.cli._options import settings
from gpulake.cli._times import end_of, until_options
from gpulake.cli.incidents._changing import change_options, ids_argument


@click.command()
@ids_argument
@until_options
@change_options
def command(
    incidents: tuple[str, ...],
    until: datetime | None,
    span: timedelta | None,
    note: str,
    by: str,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Tell nobody of incidents until a time, or until they are unmuted. What happens is recorded all the same.

    \b
    Example:  gpulake incidents mute i-3f2a --for 2h --note "being drained"
    """
    from gpulake.cli.incidents._showing import print_all_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import mute
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    clock = SystemClock()
    changes = mute(place, clock, incidents, by, note, end_of(until, span, clock.now()))
    print_all_changed(changes.made, as_json, changes.skipped)
