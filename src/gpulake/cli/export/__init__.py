"""gpulake export: workloads for simulators."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Write a workload, and the machines to run it on, for a simulator."""
