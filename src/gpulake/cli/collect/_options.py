"""Options that several verbs of the collector share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import FOLDER, Function
from gpulake.collect.live.session import LiveOptions
from gpulake.collect.settings import Settings, bytes_of, seconds_of


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
    click.option(
        "--run-id",
        envvar="RUN_ID",
        show_envvar=True,
        default="",
        help="The run's name. [default: the time, such as 20260102T030405Z]",
    ),
    click.option("--node-id", default="", help="This node's name in the run. [default: the host's name]"),
    click.option("--stage", default="", help="Stage of the node, such as edge or cloud."),
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
        help="Clock rate of a core, if the machine reports none or a wrong one.",
    ),
    click.option(
        "--cap",
        "cap_bytes",
        default="1GiB",
        show_default=True,
        callback=_parsed_by(bytes_of),
        metavar="SIZE",
        help="The most disk space for the samples of the run.",
    ),
    click.option(
        "--duration",
        "duration_seconds",
        callback=_duration,
        metavar="TIME",
        help="Stop after this time. [default: until stopped]",
    ),
)
_LIVE_OPTIONS: tuple[Callable[[Function], Function], ...] = (
    click.option(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="Serve /metrics for Prometheus there, such as 127.0.0.1:9841 or :9841, which is the same; "
        "0.0.0.0:PORT is every interface. [default: none]",
    ),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="A further name of the page, besides addresses, localhost and the host name; "
        "with passwords any name is accepted.",
    ),
    click.option(
        "--web-config-file",
        "web_config",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=lambda _context, _parameter, path: None if path is None else path.absolute(),
        help="TLS and passwords for the page, in the form of Prometheus' exporters.",
    ),
    click.option(
        "--names",
        type=click.Choice(["dcgm", "otel"]),
        default="dcgm",
        show_default=True,
        help="Names of metrics: those of dcgm-exporter and node_exporter, or OpenTelemetry's.",
    ),
    click.option(
        "--otlp",
        metavar="URL",
        default="",
        help="Push metrics to this OTLP/HTTP receiver; credentials come from OTEL_EXPORTER_OTLP_HEADERS. "
        "[default: OTEL_EXPORTER_OTLP_ENDPOINT, else none]",
    ),
    click.option(
        "--kafka",
        metavar="HOST:PORT/TOPIC",
        default="",
        help="Push them to this topic instead, as OTLP in JSON; who logs in is in GPULAKE_KAFKA_ variables.",
    ),
    click.option(
        "--otlp-every",
        "otlp_every_seconds",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        default=15.0,
        show_default=True,
        help="How often to push.",
    ),
    click.option(
        "--most-process-series",
        type=click.IntRange(min=0),
        default=1_000,
        show_default=True,
        help="Processes with their own series: those with most CPU; the others are only counted.",
    ),
)


def _as_one(name: str, build: type[Any], options: Sequence[Callable[[Function], Function]]) -> Callable[..., Function]:
    """A decorator that adds the options to a command and passes them as one object."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            fields = [field for field in build.__dataclass_fields__ if field in values]
            return function(**{name: build(**{field: values.pop(field) for field in fields})}, **values)

        decorated: Function = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


settings_options = _as_one("settings", Settings, _OPTIONS)
live_options = _as_one("live", LiveOptions, _LIVE_OPTIONS)
