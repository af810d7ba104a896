"""gpulake tests: results of the data tests of the last build."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow


@click.command()
@click.option("--all", "is_all", is_flag=True, help="List the tests that pass, too.")
@flow_options
def command(is_all: bool, flow: Flow, as_json: bool) -> None:
    """Show the data tests of the last build, published or not. Exits 1 if one failed.

    \b
    Example:  gpulake tests --all
    """
    results = flow.test_results()
    counts = {status: sum(row["status"] == status for row in results) for status in ("pass", "warn", "fail")}
    if as_json:
        print_json({"counts": counts, "results": results})
    elif not results:
        click.echo("no build has been tested yet; start one with: gpulake build", err=True)
    else:
        shown = [row for row in results if is_all or row["status"] != "pass"]
        click.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
        if shown:
            columns = ("status", "name", "table", "failures")
            print_table(columns, [tuple(row[column] for column in columns) for row in shown])
    if counts["fail"]:
        raise click.exceptions.Exit(1)
