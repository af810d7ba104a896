"""gpulake incidents windows add: a time without alerts."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli._times import Moment, end_of, until_options
from gpulake.cli._words import by_option
from gpulake.core.rows import as_document
from gpulake.flow import Flow


@click.command()
@click.option("--cluster", default="*", metavar="PATTERN", help="Clusters, such as a100-*. [default: all]")
@click.option("--node", default="*", metavar="PATTERN", help="Nodes, such as gpu-1?. [default: all]")
@click.option("--kind", default="*", metavar="PATTERN", help="Kinds of incidents. [default: all]")
@click.option("--from", "starts_at", type=Moment(), metavar="TIME", help="When it begins. [default: now]")
@until_options
@click.option("--weekdays", default="", metavar="LIST", help="It comes again on these days, such as sat,sun.")
@click.option("--hours", default="", metavar="HOURS", help="At this time of the days, such as 22:00-06:00.")
@click.option("--zone", "time_zone", default="UTC", show_default=True, help="Time zone of days and hours.")
@click.option("--note", default="", help="What it is for.")
@by_option
@flow_options
def command(
    cluster: str,
    node: str,
    kind: str,
    starts_at: datetime | None,
    until: datetime | None,
    span: timedelta | None,
    weekdays: str,
    hours: str,
    time_zone: str,
    note: str,
    by: str,
    flow: Flow,
    as_json: bool,
) -> None:
    """Add a maintenance window: once, or every week.

    \b
    Example:  gpulake incidents windows add --node "gpu-1?" --for 2h --note "new firmware"
              gpulake incidents windows add --weekdays sat,sun --hours 22:00-06:00 --zone Europe/Zurich
    """
    from gpulake.flow.incidents import add_window

    clock = flow.clock
    ends_at = end_of(until, span, starts_at or clock.now())
    patterns = {"cluster": cluster, "node": node, "kind": kind}
    times = {"starts_at": starts_at, "ends_at": ends_at, "hours": hours, "time_zone": time_zone}
    days = weekdays.lower().replace(" ", "")
    place = flow.lake.open()
    window = add_window(place, clock, by, **patterns, **times, weekdays=days, note=note)
    if as_json:
        print_json(as_document(window))
    else:
        click.echo(f"{window.window_id}: added")
