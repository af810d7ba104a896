"""gpulake incidents show: one incident, with its history."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli.incidents._showing import print_case
from gpulake.core.rows import as_document, json_rows
from gpulake.flow import Flow


@click.command()
@click.argument("incident", metavar="ID")
@flow_options
def command(incident: str, flow: Flow, as_json: bool) -> None:
    """Show an incident: how it stands, its last diagnosis with the evidence, similar ones, and what happened to it.

    The beginning of an id will do, where it is the only one.

    \b
    Example:  gpulake incidents show 3f2a
    """
    from gpulake.flow.incidents import read_incident

    case = read_incident(flow.lake.open(), incident)
    if not as_json:
        print_case(case)
        return
    listed = {name: json_rows(case.diagnosis.get(name)) for name in ("evidence", "symptoms", "similar")}
    print_json(
        {
            **as_document(case.incident),
            "history": [as_document(event) for event in case.history],
            "worth": case.worth or None,
            "diagnosis": {**case.diagnosis, **listed} if case.diagnosis else None,
        }
    )
