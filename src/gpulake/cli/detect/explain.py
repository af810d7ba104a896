"""gpulake detect explain: why something was found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("given", metavar="ID")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write the series, the band and the jobs as an HTML page that works offline.",
)
@lake_option
@json_option
def command(given: str, plot: Path | None, lake: Path | None, as_json: bool) -> None:
    """Show why something was found: the series around it, what was expected, and the jobs that ran then.

    ID is that of a finding or of an incident. The beginning of an id will do, where it is the only one.

    \b
    Example:  gpulake detect explain f-3f2a --plot why.html
    """
    from gpulake.cli._output import print_json, print_screen
    from gpulake.cli._screen import screen
    from gpulake.core.errors import UsageError
    from gpulake.flow.detecting import explain, write_plot
    from gpulake.lake import Lake
    from gpulake.show.explain_text import explanation_text, jobs_text

    found = explain(Lake(settings(lake=lake)).open(), given)
    if plot:
        write_plot(found, plot)
    if as_json:
        print_json(asdict(found))
    else:
        columns = screen().columns
        print_screen(f"{explanation_text(found, columns)}\n{jobs_text(found.ran, columns)}")
        if plot:
            click.echo(plot)
    if found.evidence is None:
        raise UsageError(f"{found.explained_id} has no series to show", found.rests_on)
