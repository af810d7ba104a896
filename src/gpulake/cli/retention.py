"""gpulake retention: roll up samples whose time is over."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow
from gpulake.flow.retaining import retain

GRAINS = {"minute": "rolled up, one a minute", "hour": "rolled up, one an hour", "day": "kept: past days"}


@click.command()
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be done to the last build.")
@flow_options
def command(is_dry_run: bool, flow: Flow, as_json: bool) -> None:
    """Roll up samples that are older than [retention] says, and remove them as they were.

    Tables by hour and by day stay as they are for the days before; what jobs and owners used is unchanged. Readers go
    on meanwhile. gpulake run does it once a day. docs/operations.md says what stays equal.

    \b
    Example:  gpulake config set retention.raw_days 14
              gpulake retention --dry-run
    """
    result = retain(flow, is_dry_run)
    if as_json:
        print_json(asdict(result))
        return
    rows = [(one.table, GRAINS[one.grain], one.before[:10], one.rows, one.rows_after) for one in result.archived]
    rows += [(table, "removed", "", count, 0) for table, count in result.removed.items()]
    if rows:
        print_table(("table", "what", "before (UTC)", "rows", "rows after"), rows)
    else:
        click.echo("Nothing is old enough.", err=True)
