"""gpulake alerts: what people are told, and whether it has reached them."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Look at alerts, send those that wait, and test where they go."""
