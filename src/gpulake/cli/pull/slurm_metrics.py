"""gpulake pull slurm_metrics: nodes of Slurm, by way of a Prometheus."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli.pull._pulling import past_options, pull_options
from gpulake.pull import Source


@click.command()
@past_options("slurm")
@pull_options
def command(url: str, cluster: str, step: timedelta, match: str, ca_file: Path | None, timeout: timedelta) -> Source:
    """Pull states of Slurm's nodes from the Prometheus that scrapes a Slurm exporter.

    For those who may not run Slurm's programs, and for the time before the first pull slurm. Jobs are not in these
    metrics: land what sacct prints. Credentials come from the environment, as those of pull prometheus do.

    \b
    Example:  gpulake pull slurm_metrics --url http://prometheus:9090 --cluster tiger --since 7d --refresh
    """
    from gpulake.pull.slurm_metrics import SlurmMetricsPull

    return SlurmMetricsPull(url, cluster, step, match, ca_file, timeout.total_seconds())
