"""gpulake repair: mend what is damaged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be done.")
@click.option("--drop", "may_drop", is_flag=True, help="Do without what cannot be mended; it is set aside, and said.")
@lake_option
@json_option
def command(is_dry_run: bool, may_drop: bool, lake: Path | None, as_json: bool) -> None:
    """Mend damaged files of the lake, then build anew what was made of them.

    Everything is held to what was written, as gpulake doctor --deep does. A damaged data file lands again if its
    original is still there and says the same; a log is renewed from what can be read. Where something would be lost,
    only --drop does it: the landing is taken back, so that the version before it holds again, or none. Exits 1 while
    something is left to mend.

    \b
    Example:  gpulake repair --dry-run
    """
    from gpulake.cli._output import print_json, print_table
    from gpulake.flow import Flow

    repairs, build_id = Flow(settings(lake=lake)).repair(is_dry_run, may_drop)
    if as_json:
        print_json({"is_dry_run": is_dry_run, "repairs": [asdict(one) for one in repairs], "build_id": build_id})
    elif repairs:
        rows = [(one.status, one.action, one.damage, str(one.path)) for one in repairs]
        print_table(("", "what is done", "damage", "file"), rows)
    else:
        click.echo("Nothing is damaged.", err=True)
    if build_id and not as_json:
        click.echo(f"Build {build_id} was made of what there is now.", err=True)
    if any(one.status != "done" for one in repairs):
        raise click.exceptions.Exit(1)
