"""gpulake forget: take a user's name out of the lake."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow
from gpulake.flow.storing import forget


@click.command()
@click.option("--user", required=True, help="Name as it stands in the tables.")
@click.option("--delete", "is_deleting", is_flag=True, help="Remove rows that name the user. [default: a pseudonym]")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what names the user.")
@flow_options
def command(user: str, is_deleting: bool, is_dry_run: bool, flow: Flow, as_json: bool) -> None:
    """Take a user's name out of all tables, journals, old versions and builds.

    The name is replaced by a random pseudonym, the same everywhere, so that sums by user stay; with --delete, rows that
    name the user go. It counts where no letter or digit stands beside it, whatever its case, also within paths and
    comments. A whole build follows, and earlier builds and versions are removed at once. What lands later with that
    name has it again, and backups are not changed: take a new one, and remove those before it.

    \b
    Example:  gpulake forget --user alice --dry-run
    """
    result = forget(flow, user, is_deleting, is_dry_run)
    if as_json:
        print_json(asdict(result))
        return
    print_table(("table or file", "rows or mentions"), [(one.where, one.rows) for one in result.forgotten])
    if not is_dry_run:
        click.echo(f"The name is {result.instead} now; build {result.build_id or 'none'}.", err=True)
