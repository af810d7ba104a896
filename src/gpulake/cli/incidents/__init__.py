"""gpulake incidents: what was found and diagnosed, and what people say of it."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Look at what was found and diagnosed; say that it is looked after or over, and what its cause was."""
