"""What an unattended recovery does: a line for each event, or a JSON document."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked
from gpulake.act.returning import Returned
from gpulake.act.watching import STOP_FILE, summary
from gpulake.cli._rescue import document, returned_words
from gpulake.cli._stopping import stopping
from gpulake.core.words import label
from gpulake.flow import Flow


def watch(flow: Flow, asked: Asked, since: timedelta, as_json: bool) -> None:
    """Until SIGTERM or Ctrl-C, which end it after the step at hand."""
    from gpulake.flow import recovering

    stop = threading.Event()
    executor = asked.executor or flow.config.recoveries.executor
    lake = flow.lake.open()
    how = "steps are taken" if asked.is_executed else "plans are shown, and nothing is done"
    click.echo(
        f"watching {lake.root} with executor {executor}; {how}; to stop: touch {lake.root / STOP_FILE}", err=True
    )
    with stopping(stop.set):
        for event in recovering.watch(lake, flow.clock, asked, flow.clock.now() - since, stop.wait, stop.is_set):
            at = f"{flow.clock.now():%Y-%m-%d %H:%M:%S}"
            if as_json:
                click.echo(json.dumps({"at": at, **_document(event, asked.is_executed)}, default=str))
            else:
                click.echo(f"{at}  {_line(event, asked.is_executed)}")


def _document(event: Rescue | Returned | str, is_executed: bool) -> Mapping[str, Any]:
    if isinstance(event, str):
        return {"note": event}
    return {"recovery": document(event, is_executed)} if isinstance(event, Rescue) else {"node": asdict(event)}


def _line(event: Rescue | Returned | str, is_executed: bool) -> str:
    if isinstance(event, str):
        return label(event, 400)
    if isinstance(event, Returned):
        return f"node {label(event.node)}: {returned_words(event)}"
    diagnosis = event.failure.diagnosis
    job = "job unknown" if diagnosis.job_id is None else f"job {label(diagnosis.job_id)}"
    about = f"incident {label(event.failure.incident_id)}, {job}, {label(diagnosis.reason)}"
    return f"{about}: {label(summary(event, is_executed), 400)}"
