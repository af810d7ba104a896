"""gpulake detect explain: why something was found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE
from gpulake.cli._output import print_json, print_screen
from gpulake.cli._screen import screen
from gpulake.core.errors import UsageError
from gpulake.flow import Flow


@click.command()
@click.argument("given", metavar="ID")
@click.option(
    "--plot",
    type=FILE,
    metavar="FILE.html",
    help="Write the series, the band and the jobs as an HTML page that works offline.",
)
@flow_options
def command(given: str, plot: Path | None, flow: Flow, as_json: bool) -> None:
    """Show why something was found: the series around it, what was expected, and the jobs that ran then.

    ID is that of a finding or of an incident; an unambiguous prefix is enough.

    \b
    Example:  gpulake detect explain f-3f2a --plot why.html
    """
    from gpulake.detect.listing import explain
    from gpulake.show.explain_page import write_explanation
    from gpulake.show.explain_text import explanation_text, jobs_text

    found = explain(flow.lake.open(), given)
    if plot:
        write_explanation(found, plot)
    if as_json:
        print_json(asdict(found))
    else:
        columns = screen().columns
        print_screen(f"{explanation_text(found, columns)}\n{jobs_text(found.ran, columns)}")
        if plot:
            click.echo(plot)
    if found.evidence is None:
        raise UsageError(f"{found.explained_id} has no series to show", found.rests_on)
