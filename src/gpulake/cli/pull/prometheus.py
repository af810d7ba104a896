"""gpulake pull prometheus: the history that a Prometheus keeps."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli._options import FILE
from gpulake.cli._times import Span
from gpulake.cli.pull._pulling import pull_options
from gpulake.pull import Source


@click.command()
@click.option("--url", required=True, metavar="URL", help="Address of the server, such as http://prometheus:9090.")
@click.option("--step", type=Span(), default="30s", show_default=True, metavar="SPAN", help="Time between samples.")
@click.option("--match", default="", metavar="SELECTOR", help="Pull these series. [default: those that the tables use]")
@click.option("--ca-file", type=FILE, help="Certificates to trust, as PEM. [default: those of the system]")
@click.option("--timeout", type=Span(), default="2m", show_default=True, metavar="SPAN", help="For one answer.")
@pull_options
def command(url: str, step: timedelta, match: str, ca_file: Path | None, timeout: timedelta) -> Source:
    """Pull samples of GPUs and hosts from a Prometheus-compatible server.

    What the lake has is not pulled again: run it as often as you like, after an interruption, too. A token comes from
    GPULAKE_PROMETHEUS_TOKEN, or a user and a password from GPULAKE_PROMETHEUS_USER and GPULAKE_PROMETHEUS_PASSWORD.

    \b
    Example:  gpulake pull prometheus --url http://prometheus:9090 --since 30d
              gpulake pull prometheus --url http://prometheus:9090 --match '{job="dcgm"}' --refresh
    """
    from gpulake.pull.prometheus import PrometheusPull

    return PrometheusPull(url, step, match, ca_file, timeout.total_seconds())
