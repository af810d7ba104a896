"""gpulake incidents windows: times in which nobody is told of incidents."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Maintenance windows: incidents within one are recorded, and no alert is sent."""
