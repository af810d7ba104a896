"""gpulake incidents confirm: the diagnosis was right."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import by_option


@click.command()
@click.argument("incident", metavar="ID")
@click.option("--note", default="", help="What others should know.")
@by_option
@lake_option
@json_option
def command(incident: str, note: str, by: str, lake: Path | None, as_json: bool) -> None:
    """Say that the reason of an incident is right. It is recalled with later failures, and may become a rule.

    \b
    Example:  gpulake incidents confirm 3f2a --note "the board was replaced"
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.incidents._showing import incident_document, print_changed
    from gpulake.core.clock import SystemClock
    from gpulake.flow.incidents import confirm
    from gpulake.lake import Lake

    changed = confirm(Lake(settings(lake=lake)).open(), SystemClock(), incident, by, note)
    if as_json:
        print_json(incident_document(changed))
    else:
        print_changed(changed)
