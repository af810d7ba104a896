"""gpulake incidents show: one incident, with its history."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("incident", metavar="ID")
@lake_option
@json_option
def command(incident: str, lake: Path | None, as_json: bool) -> None:
    """Show an incident: how it stands, its last diagnosis with the evidence, similar ones, and what happened to it.

    The beginning of an id will do, where it is the only one.

    \b
    Example:  gpulake incidents show 3f2a
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.incidents._showing import print_case, rows_of
    from gpulake.core.rows import as_document
    from gpulake.flow.incidents import read_incident
    from gpulake.lake import Lake

    case = read_incident(Lake(settings(lake=lake)).open(), incident)
    if not as_json:
        print_case(case)
        return
    listed = {name: rows_of(case.diagnosis.get(name)) for name in ("evidence", "symptoms", "similar")}
    print_json(
        {
            **as_document(case.incident),
            "history": [as_document(event) for event in case.history],
            "diagnosis": {**case.diagnosis, **listed} if case.diagnosis else None,
        }
    )
