"""gpulake refresh: the whole flow in one command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--select", multiple=True, metavar="TABLE", help="Build this table and what it needs; may be repeated.")
@click.option("--force", "is_forced", is_flag=True, help="Build even if nothing has changed since the last build.")
@click.option(
    "--report", "report_path", type=click.Path(path_type=Path), help="The report. [default: LAKE/report.html]"
)
@click.option("--no-report", "has_no_report", is_flag=True, help="Write no report.")
@lake_option
@json_option
def command(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    is_forced: bool,
    report_path: Path | None,
    has_no_report: bool,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Land, build, test, score and report, in one command.

    What is done already is not done again: run it after an interruption and it goes on where it was.

    \b
    Example:  gpulake refresh data_raw/
    """
    from gpulake.cli._output import print_findings, print_json
    from gpulake.cli._progress import progress_bar
    from gpulake.flow import Flow

    config = settings(lake=lake)
    target = None if has_no_report or select else (report_path or config.lake / "report.html")
    with progress_bar(is_quiet=as_json) as report:
        landings, result = Flow(config, report=report).refresh(paths, target, select, is_forced)
    if as_json:
        document = {"landings": [asdict(landing) for landing in landings], "build": asdict(result)}
        print_json({**document, "report": str(target) if target else None})
        return
    print_findings(result.findings)
    if target:
        click.echo(f"Report: {target}", err=True)
