"""gpulake pull state_metrics: pods and nodes of Kubernetes, by way of a Prometheus."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli.pull._pulling import past_options, pull_options
from gpulake.pull import Source


@click.command()
@past_options("kubernetes")
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
