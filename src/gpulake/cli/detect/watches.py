"""gpulake detect watches: what is looked at."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow


@click.command()
@flow_options
def command(flow: Flow, as_json: bool) -> None:
    """List the watches: what each reads, by which detector, how much history it needs, and whether there is data.

    \b
    Example:  gpulake detect watches
    """
    from gpulake.detect.listing import read_watches

    found = read_watches(flow.lake.open())
    if as_json:
        print_json([{**asdict(one), "has_data": not one.empty} for one in found])
        return
    rows = [
        (
            one.name,
            ", ".join(one.tables),
            one.detector,
            one.least_points,
            "yes" if not one.empty else f"no rows in {', '.join(one.empty)}",
            one.findings,
            one.about,
        )
        for one in found
    ]
    print_table(("watch", "reads", "detector", "least points", "has data", "found", "what it sees"), rows)
