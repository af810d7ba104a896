"""gpulake alerts: list, send, retry and test alerts."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """List alerts, send those that wait, and test sinks."""
