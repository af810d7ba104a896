"""--lake as a flow: what nearly every verb takes that works on a lake."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import Function, json_option, lake_option, settings
from gpulake.flow import Flow


def flow_option(function: Function) -> Function:
    """--lake, which the command gets as `flow`."""

    @wraps(function)
    def call(*, lake: Path | None, **values: Any) -> Any:
        flow = Flow(settings(lake=lake))
        try:
            return function(flow=flow, **values)
        finally:
            for note in flow.notes:
                click.echo(note, err=True)

    return lake_option(call)


def flow_options(function: Function) -> Function:
    """--lake and --json, which the command gets as `flow` and `as_json`."""
    return flow_option(json_option(function))
