"""gpulake incidents: list, show and change incidents."""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs
from gpulake.cli.incidents._changes import INCIDENT_VERBS, change_command


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """List and show incidents; acknowledge, assign, mute or resolve them; confirm or correct their reason."""


for _name, _entry in INCIDENT_VERBS.items():
    command.add_command(change_command(_name, _entry))
