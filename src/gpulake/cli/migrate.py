"""gpulake migrate: bring a lake to the newest format."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.flow import Flow
from gpulake.flow.storing import migrate


@click.command()
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be done.")
@flow_options
def command(is_dry_run: bool, flow: Flow, as_json: bool) -> None:
    """Bring a lake of an older format to the newest one.

    Older lakes are read and extended as they are; what only a newer format allows migrates by itself. There is no way
    back but a backup: programs before this one refuse the lake then.

    \b
    Example:  gpulake migrate --dry-run
    """
    steps = migrate(flow, is_dry_run)
    if as_json:
        print_json({"is_dry_run": is_dry_run, "steps": [{"to": step.to, "what": step.what} for step in steps]})
        return
    for step in steps:
        click.echo(f"format {step.to}: {step.what}")
    if not steps:
        click.echo("The lake has the newest format.", err=True)
