"""--lake as a flow: what nearly every verb takes that works on a lake."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

from gpulake.cli._options import Function, json_option, lake_option, settings
from gpulake.flow import Flow


def flow_option(function: Function) -> Function:
    """--lake, which the command gets as `flow`."""

    @wraps(function)
    def call(*, lake: Path | None, **values: Any) -> Any:
        return function(flow=Flow(settings(lake=lake)), **values)

    return lake_option(call)


def flow_options(function: Function) -> Function:
    """--lake and --json, which the command gets as `flow` and `as_json`."""
    return flow_option(json_option(function))
