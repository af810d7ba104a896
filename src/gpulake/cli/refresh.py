"""gpulake refresh: the whole flow in one command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._landed import fail_if_any_failed, print_landed
from gpulake.cli._options import ANY_PATH, build_options, quiet_option
from gpulake.cli._output import print_findings, print_json, remark
from gpulake.cli._progress import progress_bar
from gpulake.core.errors import UsageError
from gpulake.flow import Flow


@click.command()
@click.argument("paths", nargs=-1, type=ANY_PATH)
@click.option(
    "--replace", "is_replacing", is_flag=True, help="Replace what landed under the same name, instead of adding to it."
)
@build_options
@click.option("--report", "report_path", type=ANY_PATH, help="The report. [default: LAKE/report.html]")
@click.option("--no-report", "has_no_report", is_flag=True, help="Write no report.")
@quiet_option
@flow_options
def command(
    paths: tuple[Path, ...],
    is_replacing: bool,
    select: tuple[str, ...],
    is_forced: bool,
    without: tuple[str, ...],
    report_path: Path | None,
    has_no_report: bool,
    flow: Flow,
    as_json: bool,
) -> None:
    """Land, build, test, score and report, in one command.

    Finished work is skipped: after an interruption, run it again and it resumes. A file that cannot be read costs only
    itself: the others are landed and built, and the exit code is 3. If none can be read, nothing is built.

    \b
    Example:  gpulake refresh data_raw/
    """
    if select and report_path:
        raise UsageError("--select and --report were both given", "a report needs the whole build; leave one out")
    target = None if has_no_report or select else (report_path or flow.default_report)
    with progress_bar(is_silent=as_json) as flow.report:
        result = flow.refresh(paths, target, select, is_forced, without, is_replacing)
    if as_json:
        print_json({**asdict(result), "rows_quarantined": result.landed.rows_quarantined})
    else:
        print_findings(result.build.findings)
        if paths:
            print_landed(result.landed)
        if target:
            remark(f"Report: {target}")
    fail_if_any_failed(result.landed)
