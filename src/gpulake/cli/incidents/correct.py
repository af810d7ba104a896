"""gpulake incidents correct: the diagnosis was wrong, and this is what it was."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import Reason, by_option


@click.command()
@click.argument("incident", metavar="ID")
@click.option("--reason", type=Reason(), required=True, help="What it was. NotAFailure: nothing had failed.")
@click.option("--cause", default="", help="The cause, in a sentence.")
@click.option("--remedy", default="", help="What helped, or what to do.")
@click.option("--note", default="", help="What others should know.")
@by_option
@lake_option
@json_option
def command(
    incident: str, reason: str, cause: str, remedy: str, note: str, by: str, lake: Path | None, as_json: bool
) -> None:
    """Say what an incident really was. It is recalled with later failures, and may become a rule.

    \b
    Example:  gpulake incidents correct 3f2a --reason DiskFull --cause "the scratch volume was full"
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.incidents._showing import incident_document, print_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import correct
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    changed = correct(place, SystemClock(), incident, by, reason, cause, remedy, note)
    if as_json:
        print_json(incident_document(changed))
    else:
        print_changed(changed)
