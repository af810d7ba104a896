"""gpulake repair: mend what is damaged."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow


@click.command()
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be done.")
@click.option("--drop", "may_drop", is_flag=True, help="Set aside what cannot be repaired, and continue without it.")
@flow_options
def command(is_dry_run: bool, may_drop: bool, flow: Flow, as_json: bool) -> None:
    """Repair damaged files of the lake, then rebuild what was made of them.

    Everything is compared with what was written, as gpulake doctor --deep does. A damaged data file lands again if its
    original is still there and unchanged; a log is rewritten from what can be read. Where something would be lost, only
    --drop does it: the landing is taken back, so that the version before it, if any, is in force again. Exits 1 while
    something remains to be repaired.

    \b
    Example:  gpulake repair --dry-run
    """
    repairs, build_id = flow.repair(is_dry_run, may_drop)
    if as_json:
        print_json({"is_dry_run": is_dry_run, "repairs": [asdict(one) for one in repairs], "build_id": build_id})
    elif repairs:
        rows = [(one.status, one.action, one.damage, str(one.path)) for one in repairs]
        print_table(("", "action", "damage", "file"), rows)
    else:
        click.echo("Nothing is damaged.", err=True)
    if build_id and not as_json:
        click.echo(f"Build {build_id} was made of what there is now.", err=True)
    if any(one.status != "done" for one in repairs):
        raise click.exceptions.Exit(1)
