"""gpulake import: workloads of simulators into the lake."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Land a workload of a simulator in the lake."""
