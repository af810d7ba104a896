"""gpulake incidents ack: somebody looks after it."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import settings
from gpulake.cli.incidents._changing import change_options, ids_argument


@click.command()
@ids_argument
@click.option("--hold", "is_held", is_flag=True, help="It stays until a person resolves it.")
@change_options
def command(
    incidents: tuple[str, ...],
    is_held: bool,
    note: str,
    by: str,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Say that you look after incidents. Those who are told of them are not told again unless it gets worse.

    \b
    Example:  gpulake incidents ack i-3f2a i-77 --note "the fan is on order" --hold
    """
    from gpulake.cli.incidents._showing import print_all_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import acknowledge
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    changes = acknowledge(place, SystemClock(), incidents, by, note, is_held)
    print_all_changed(changes.made, as_json, changes.skipped)
