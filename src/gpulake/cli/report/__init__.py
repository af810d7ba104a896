"""gpulake report: pages and cards that people read."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Write reports from the last complete build."""
