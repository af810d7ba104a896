"""gpulake incidents: failures that were diagnosed, and what people say of them."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Look at failures that were recorded; confirm their cause, or put it right."""
