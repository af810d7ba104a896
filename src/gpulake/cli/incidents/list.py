"""gpulake incidents list: incidents as they stand."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._words import Reason
from gpulake.core.incidents import STATES
from gpulake.core.rows import as_document
from gpulake.core.words import label
from gpulake.flow import Flow


@click.command()
@click.option("--state", type=click.Choice(STATES), help="Only those.")
@click.option("--reason", type=Reason(), help="Only those with this reason.")
@click.option("--kind", help="Only those of this kind: failure, or a kind of finding.")
@flow_options
def command(state: str | None, reason: str | None, kind: str | None, flow: Flow, as_json: bool) -> None:
    """List incidents as they stand, the newest first.

    \b
    Example:  gpulake incidents list --state open --reason OutOfMemoryError
    """
    from gpulake.flow.incidents import read_incidents

    incidents = read_incidents(flow.lake.open(), state, reason, kind)
    if as_json:
        print_json([as_document(one) for one in incidents])
        return
    if not incidents:
        wanted = " like that" if state or reason else ""
        click.echo(f"no incidents{wanted}; a log that failed becomes one: gpulake diagnose LOG", err=True)
        return
    rows = [
        (
            label(one.incident_id),
            f"{one.opened_at or one.changed_at:%Y-%m-%d %H:%M}",
            one.state,
            one.severity,
            label(one.reason),
            one.is_confirmed,
            label(one.subject, 60),
            label(one.cause, 100),
        )
        for one in incidents
    ]
    print_table(("incident", "opened (UTC)", "state", "severity", "reason", "confirmed", "subject", "cause"), rows)
