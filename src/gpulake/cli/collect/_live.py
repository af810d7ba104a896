"""The options of a collector that is watched while it runs: a page for Prometheus, and OTLP pushed to a receiver."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from gpulake.collect.live.session import LiveOptions

Function = Callable[..., Any]


def live_options(function: Function) -> Function:
    """Gives a command `live: LiveOptions`."""

    @wraps(function)
    def command(
        listen: str,
        web_config_file: Path | None,
        names: str,
        otlp: str,
        otlp_every: float,
        most_process_series: int,
        allowed_host: tuple[str, ...],
        **others: Any,
    ) -> Any:
        web_config = web_config_file.absolute() if web_config_file is not None else None
        live = LiveOptions(listen, web_config, names, otlp, otlp_every, most_process_series, allowed_host)
        return function(**others, live=live)

    made: Function = command
    for option in reversed(OPTIONS):
        made = option(made)
    return made


OPTIONS: tuple[Callable[[Function], Function], ...] = (
    click.option(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="Serve /metrics for Prometheus there, such as 127.0.0.1:9841 or :9841, which is the same; "
        "0.0.0.0:PORT is every interface. [default: none]",
    ),
    click.option(
        "--allowed-host",
        metavar="NAME",
        multiple=True,
        help="A name by which Prometheus reaches the page, beside addresses, localhost and the host's own name; "
        "with passwords any will do.",
    ),
    click.option(
        "--web-config-file",
        type=click.Path(path_type=Path, dir_okay=False),
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
        "--otlp-every",
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
        help="Processes that get series of their own: those that used most CPU; the others are counted.",
    ),
)
