"""gpulake alerts send: sends the outbox."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.core.errors import ActError
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.alerts.sending import Drained


@click.command()
@click.option("--watch", "is_watching", is_flag=True, help="Repeat until it is stopped.")
@flow_options
def command(is_watching: bool, flow: Flow, as_json: bool) -> None:
    """Send the alerts that wait, each sink's in their order. What fails is kept, and tried again later.

    \b
    Example:  gpulake alerts send --watch
    """
    from gpulake.flow.alerting import watch_alerts

    if is_watching:
        for drained in watch_alerts(flow.lake.open(), flow.clock, time.sleep):
            if drained.sent or drained.dropped or drained.failures:
                click.echo(_summary(drained))
        return
    drained = flow.send_alerts()
    if as_json:
        print_json(asdict(drained))
    else:
        click.echo(_summary(drained))
    if drained.failures:
        failed = "; ".join(drained.failures.values())
        raise ActError(failed, "they are tried again; see: gpulake alerts list --state failed")


def _summary(drained: Drained) -> str:
    summaries = f" ({drained.summaries} summaries)" if drained.summaries else ""
    return f"sent {drained.sent}{summaries}, dropped {drained.dropped}, waiting {drained.waiting}"
