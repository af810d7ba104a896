"""gpulake incidents resolve: it is over."""

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
    """Say that incidents are over. What is seen well after that opens them again.

    \b
    Example:  gpulake incidents resolve i-3f2a --note "the fan was replaced"
    """
    from gpulake.cli.incidents._showing import print_all_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import resolve
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    changes = resolve(place, SystemClock(), incidents, by, note)
    print_all_changed(changes.made, as_json, changes.skipped)
