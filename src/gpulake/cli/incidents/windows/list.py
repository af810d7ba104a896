"""gpulake incidents windows list: the windows that stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.core.rows import as_document
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.incidents.windows import Window

COLUMNS = ("window", "cluster", "node", "kind", "from (UTC)", "until (UTC)", "every week", "note")


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Those that are over or were removed, too.")
@flow_options
def command(is_all: bool, flow: Flow, as_json: bool) -> None:
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
