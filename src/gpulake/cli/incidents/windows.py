"""gpulake incidents windows: times without alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._times import Moment, end_of, until_options
from gpulake.cli._verbs import Group
from gpulake.cli._words import by_option
from gpulake.core.rows import as_document
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.incidents.windows import Window

COLUMNS = ("window", "cluster", "node", "kind", "from (UTC)", "until (UTC)", "every week", "note")


@click.group(cls=Group)
def command() -> None:
    """Maintenance windows: incidents within one are recorded, and no alert is sent."""


@command.command("add")
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
def add(
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


@command.command("list")
@click.option("--all", "is_all", is_flag=True, help="Those that are over or were removed, too.")
@flow_options
def list_windows(is_all: bool, flow: Flow, as_json: bool) -> None:
    """List maintenance windows that are on or are to come.

    \b
    Example:  gpulake incidents windows list
    """
    from gpulake.flow.incidents import read_windows

    now = flow.clock.now()
    every = read_windows(flow.lake.open()).values()
    shown = [one for one in every if is_all or not (one.is_removed or (one.ends_at is not None and one.ends_at <= now))]
    if as_json:
        print_json([as_document(one) for one in shown])
    else:
        print_table(COLUMNS, [_line(one) for one in shown])


def _line(window: Window) -> tuple[str, ...]:
    times = [f"{at:%Y-%m-%d %H:%M}" if at else "" for at in (window.starts_at, window.ends_at)]
    weekly = " ".join(filter(None, (window.weekdays, window.hours, window.time_zone if window.is_weekly else "")))
    patterns = (window.cluster, window.node, window.kind)
    return (window.window_id, *(label(one, 60) for one in patterns), *times, weekly, label(window.note, 100))


@command.command("remove")
@click.argument("window", metavar="ID")
@by_option
@flow_options
def remove(window: str, by: str, flow: Flow, as_json: bool) -> None:
    """Remove a maintenance window. The beginning of its id will do, where it is the only one.

    \b
    Example:  gpulake incidents windows remove w-3f2a
    """
    from gpulake.flow.incidents import remove_window

    gone = remove_window(flow.lake.open(), flow.clock, window, by)
    if as_json:
        print_json(as_document(gone))
    else:
        click.echo(f"{gone.window_id}: removed")
