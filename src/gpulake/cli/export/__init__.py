"""gpulake export: workloads for simulators, dashboards for Grafana."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Write what other tools take: a workload for a simulator, dashboards for Grafana."""
