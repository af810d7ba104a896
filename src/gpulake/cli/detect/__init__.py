"""gpulake detect: what the detectors found, and why."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Look at what was detected: what was expected, what was seen, and which jobs ran then."""
