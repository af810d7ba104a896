"""Options that the collector's verbs share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from gpulake.collect.settings import Settings, bytes_of, seconds_of

Function = Callable[..., Any]
FOLDER = click.Path(path_type=Path, file_okay=False)


def dir_option(function: Function) -> Function:
    return click.option(
        "--dir", "base", type=FOLDER, default=Path("runs"), show_default=True, help="The folder of all runs."
    )(function)


def grace_option(function: Function) -> Function:
    return click.option(
        "--grace",
        default="5s",
        show_default=True,
        callback=_parsed_by(seconds_of),
        metavar="TIME",
        help="How long a collector may take to stop before it is killed.",
    )(function)


def settings_options(function: Function) -> Function:
    """All that a collector can be asked to do; the command is given `settings`."""

    @functools.wraps(function)
    def with_settings(**options: Any) -> Any:
        names = {name for name in Settings.__dataclass_fields__ if name in options}
        settings = Settings(**{name: options.pop(name) for name in names})
        return function(settings=settings, **options)

    wrapped: Function = with_settings
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def new_run_id() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def _parsed_by(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    return lambda _context, _parameter, value: None if value is None else parse(value)


def _duration(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float:
    return math.inf if value is None else seconds_of(value)


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


_OPTIONS: tuple[Callable[[Function], Function], ...] = (
    dir_option,
    click.option("--run-id", default="", help="The run's name. [default: the time, such as 20260102T030405Z]"),
    click.option("--node-id", default="", help="This node's name in the run. [default: the host's name]"),
    click.option("--stage", default="", help="Where the node stands, such as edge or cloud."),
    click.option("--interface", default="", help="The network interface of the run. [default: of the default route]"),
    click.option("--peer", default="", help="Address of another node, to measure the round trip to."),
    click.option("--match", default="", metavar="REGEX", help="Only processes whose name or command line matches."),
    click.option("--pid-dir", type=FOLDER, help="Only processes that have a file named by their pid in this folder."),
    click.option("--cgroup", default="", help="Only processes in this cgroup or below it."),
    click.option(
        "--refresh/--no-refresh",
        "has_refresh",
        default=True,
        show_default=True,
        help="Look for new processes all the time, or only at the start.",
    ),
    click.option(
        "--interval",
        "interval_seconds",
        default="1s",
        show_default=True,
        callback=_parsed_by(seconds_of),
        metavar="TIME",
        help="Time between two samples, 100ms or more.",
    ),
    click.option(
        "--sources", default="", callback=_names, metavar="NAMES", help="Sources, with commas. [default: all]"
    ),
    click.option(
        "--cpu-freq-mhz",
        type=click.IntRange(min=0),
        default=0,
        help="Clock rate of a core, where the machine does not tell it or tells it wrong.",
    ),
    click.option(
        "--cap",
        "cap_bytes",
        default="1GiB",
        show_default=True,
        callback=_parsed_by(bytes_of),
        metavar="SIZE",
        help="The most disk that the samples of the run may take.",
    ),
    click.option(
        "--duration",
        "duration_seconds",
        callback=_duration,
        metavar="TIME",
        help="Stop after this time. [default: when told to]",
    ),
)
