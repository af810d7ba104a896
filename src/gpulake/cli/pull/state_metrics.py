"""gpulake pull state_metrics: pods and nodes of Kubernetes, by way of a Prometheus."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli._options import FILE
from gpulake.cli._times import Span
from gpulake.cli.pull._pulling import pull_options
from gpulake.pull import Source


@click.command()
@click.option("--url", required=True, metavar="URL", help="Address of the Prometheus, such as http://prometheus:9090.")
@click.option(
    "--cluster", default="kubernetes", show_default=True, metavar="NAME", help="Name of the cluster in the lake."
)
@click.option("--step", type=Span(), default="5m", show_default=True, metavar="SPAN", help="Time between snapshots.")
@click.option("--match", default="", metavar="LABELS", help='Of one cluster among several, such as cluster="tiger".')
@click.option("--ca-file", type=FILE, help="Certificates to trust, as PEM. [default: those of the system]")
@click.option("--timeout", type=Span(), default="2m", show_default=True, metavar="SPAN", help="For one answer.")
@pull_options
def command(url: str, cluster: str, step: timedelta, match: str, ca_file: Path | None, timeout: timedelta) -> Source:
    """Pull pods and nodes of Kubernetes from the Prometheus that scrapes kube-state-metrics.

    For those who may not ask the Kubernetes API, and for the time before the first pull kubernetes. Credentials come
    from the environment, as those of pull prometheus do.

    \b
    Example:  gpulake pull state_metrics --url http://prometheus:9090 --cluster tiger --since 7d --refresh
    """
    from gpulake.pull.state_metrics import StateMetricsPull

    return StateMetricsPull(url, cluster, step, match, ca_file, timeout.total_seconds())
