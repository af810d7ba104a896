"""gpulake build: silver and gold from what landed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings, without_option


@click.command()
@click.option("--select", multiple=True, metavar="TABLE", help="Build this table and what it needs; may be repeated.")
@click.option("--force", "is_forced", is_flag=True, help="Build even if nothing has changed since the last build.")
@click.option("--dbt", "is_dbt", is_flag=True, help="Let dbt itself run the project, unit tests and all.")
@click.option("--model", type=click.Path(path_type=Path), help="Score days with this model file; fit none.")
@without_option
@lake_option
@json_option
def command(
    select: tuple[str, ...],
    is_forced: bool,
    is_dbt: bool,
    model: Path | None,
    without: tuple[str, ...],
    lake: Path | None,
    as_json: bool,
) -> None:
    """Build silver and gold, test them, score the days, and swap the build in whole.

    Readers see the last complete build until this one is done. A build whose tests fail is not swapped in.

    \b
    Example:  gpulake build
    """
    from gpulake.cli._output import print_findings, print_json
    from gpulake.cli._progress import progress_bar
    from gpulake.core.words import count
    from gpulake.flow import Flow
    from gpulake.flow.order import Work

    with progress_bar(is_quiet=as_json) as report:
        work = Work((), None, select, is_forced, is_dbt, model, without)
        result = Flow(settings(lake=lake), report=report).run(work).build
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
        click.echo(f"The last build was extended: {days} built anew, {late} came late.", err=True)
    click.echo(f"Build {result.build_id}: {len(result.tests)} data tests, {warned} with warnings.", err=True)
    click.echo("Next: gpulake tables, gpulake tests, gpulake report overview", err=True)
