"""gpulake report: pages and cards that people read."""

from __future__ import annotations

import click

from gpulake.cli.report.efficiency import efficiency
from gpulake.cli.report.nudges import nudges
from gpulake.cli.report.overview import overview
from gpulake.cli.report.pai import pai


@click.group()
def command() -> None:
    """Write reports from the last complete build."""


for verb in (overview, efficiency, nudges, pai):
    command.add_command(verb)
