"""gpulake refresh: the whole flow in one command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings, without_option
from gpulake.core.errors import UsageError


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--select", multiple=True, metavar="TABLE", help="Build this table and what it needs; may be repeated.")
@click.option("--force", "is_forced", is_flag=True, help="Build even if nothing has changed since the last build.")
@click.option(
    "--report", "report_path", type=click.Path(path_type=Path), help="The report. [default: LAKE/report.html]"
)
@click.option("--no-report", "has_no_report", is_flag=True, help="Write no report.")
@without_option
@lake_option
@json_option
def command(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    is_forced: bool,
    report_path: Path | None,
    has_no_report: bool,
    without: tuple[str, ...],
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

    if select and report_path:
        raise UsageError("--select and --report were both given", "a report needs the whole build; leave one out")
    config = settings(lake=lake)
    target = None if has_no_report or select else (report_path or config.lake / "report.html")
    with progress_bar(is_quiet=as_json) as report:
        result = Flow(config, report=report).refresh(paths, target, select, is_forced, without)
    if as_json:
        print_json(asdict(result))
        return
    print_findings(result.build.findings)
    for source in result.unknown:
        click.echo(f"not recognised, left alone: {source}", err=True)
    if target:
        click.echo(f"Report: {target}", err=True)
