"""gpulake rules: what the diagnosis knows, what it may learn, and who decides."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Look at the rules of the diagnosis, try them, and review what was learned."""
