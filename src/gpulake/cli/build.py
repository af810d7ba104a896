"""gpulake build: silver and gold from what landed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import ANY_PATH, build_options
from gpulake.cli._output import print_findings, print_json
from gpulake.cli._progress import progress_bar
from gpulake.core.words import count
from gpulake.flow import Flow
from gpulake.flow.order import Work


@click.command()
@build_options
@click.option("--dbt", "is_dbt", is_flag=True, help="Run the project with dbt itself, including its unit tests.")
@click.option("--model", type=ANY_PATH, help="Score days with this model file; fit none.")
@flow_options
def command(model: Path | None, flow: Flow, as_json: bool, **options: Any) -> None:
    """Build silver and gold, test them, score the days, and publish the whole build at once.

    Readers see the last complete build until this one is done. A build whose tests fail is not published.

    \b
    Example:  gpulake build
    """
    with progress_bar(is_quiet=as_json) as flow.report:
        result = flow.run(Work(model=model, **options)).build
    if as_json:
        print_json(asdict(result))
        return
    print_findings(result.findings)
    if not result.is_new:
        click.echo(f"Nothing has changed since build {result.build_id}.", err=True)
        return
    if result.left_out:
        click.echo(f"Made without: {', '.join(result.left_out)}", err=True)
    warned = sum(test.status == "warn" for test in result.tests)
    if result.touched:
        days, late = count(result.touched.touched_days, "day"), count(result.touched.late_attempts, "attempt")
        click.echo(f"The last build was extended: {days} rebuilt, {late} came late.", err=True)
    click.echo(f"Build {result.build_id}: {len(result.tests)} data tests, {warned} with warnings.", err=True)
    click.echo("Next: gpulake tables, gpulake tests, gpulake report overview", err=True)
