"""gpulake detect list: what was found, and when."""

from __future__ import annotations

from datetime import datetime

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._screen import screen, wrapped
from gpulake.cli._times import Moment
from gpulake.core.kinds import SEVERITIES
from gpulake.core.words import label
from gpulake.flow import Flow

LEAST_COLUMNS = 120  # narrower terminals get a list instead of a table
MOST_ROWS = 4  # of a headline in that list


@click.command()
@click.option("--kind", help="Only findings of this kind.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only those.")
@click.option("--watch", help="Only what this watch found; see: gpulake detect watches.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only what was seen since; UTC where no zone is given.")
@flow_options
def command(
    kind: str | None, severity: str | None, watch: str | None, since: datetime | None, flow: Flow, as_json: bool
) -> None:
    """List the findings of the current build that have a time, the most severe first, of those the newest.

    \b
    Example:  gpulake detect list --severity critical --since 2026-01-31
    """
    from gpulake.detect.listing import read_findings

    found = read_findings(flow.lake.open(), kind, severity, watch, since)
    if as_json:
        print_json([{**one.row, "finding_id": one.finding_id, "severity": one.severity} for one in found])
        return
    if not found:
        wanted = " like that" if kind or severity or watch or since else ""
        click.echo(f"nothing{wanted} was found that has a time; what is watched: gpulake detect watches", err=True)
        return
    rows = [
        (
            one.finding_id,
            f"{one.at:%Y-%m-%d %H:%M}" if one.row.get("began_at") else f"{one.at:%Y-%m-%d}",
            one.severity,
            label(one.row["kind"], 40),
            label(one.row.get("watch") or "", 40),
            label(one.row["headline"], 160),
        )
        for one in found
    ]
    columns = screen().columns
    if columns < LEAST_COLUMNS:
        for name, began, severe, what, _, headline in rows:
            click.echo("\n  ".join([f"{name}  {began}  {severe}", what, *wrapped(headline, columns - 2, MOST_ROWS)]))
        return
    print_table(("finding", "began (UTC)", "severity", "kind", "watch", "what was found"), rows)
