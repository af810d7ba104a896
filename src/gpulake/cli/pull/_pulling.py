"""What the sources have in common: the time, the lake, and what is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE, Function, quiet_option
from gpulake.cli._output import print_findings, print_json, print_table, remark
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Moment, Since, Span
from gpulake.flow import Flow
from gpulake.pull import Source


def pull_options(function: Function) -> Function:
    """The command returns its source; what is common to all sources is done here."""

    @wraps(function)
    def call(
        *,
        since: datetime | timedelta | None,
        until: datetime | None,
        is_again: bool,
        is_refreshed: bool,
        flow: Flow,
        as_json: bool,
        **values: Any,
    ) -> None:
        source = function(**values)
        if isinstance(since, timedelta):
            since = flow.clock.now() - since
        _pull(flow, source, since, until, is_again, is_refreshed, as_json)

    for option in (
        click.option(
            "--refresh", "is_refreshed", is_flag=True, help="Build and report afterwards, as gpulake refresh."
        ),
        click.option("--again", "is_again", is_flag=True, help="Pull also what was pulled before; it counts once."),
        click.option("--until", type=Moment(), metavar="TIME", help="Until this time. [default: now]"),
        click.option(
            "--since",
            type=Since(),
            metavar="TIME|SPAN",
            help="Since this time, or for so long until now, such as 30d. [default: since the last pull, else 1d]",
        ),
    ):
        call = option(call)
    return quiet_option(flow_options(call))


def past_options(cluster: str) -> Callable[[Function], Function]:
    """Of sources that a Prometheus stands in for."""

    def add(function: Function) -> Function:
        for option in (
            click.option(
                "--timeout", type=Span(), default="2m", show_default=True, metavar="SPAN", help="For one answer."
            ),
            click.option("--ca-file", type=FILE, help="Certificates to trust, as PEM. [default: those of the system]"),
            click.option(
                "--match", default="", metavar="LABELS", help='Of one cluster among several, such as cluster="tiger".'
            ),
            click.option(
                "--step", type=Span(), default="5m", show_default=True, metavar="SPAN", help="Time between snapshots."
            ),
            click.option(
                "--cluster", default=cluster, show_default=True, metavar="NAME", help="Name of the cluster in the lake."
            ),
            click.option(
                "--url", required=True, metavar="URL", help="Address of the Prometheus, such as http://prometheus:9090."
            ),
        ):
            function = option(function)
        return function

    return add


def _pull(
    flow: Flow,
    source: Source,
    since: datetime | None,
    until: datetime | None,
    is_again: bool,
    is_refreshed: bool,
    as_json: bool,
) -> None:
    with progress_bar(is_silent=as_json) as flow.report:
        result = flow.pull(source, since, until, is_again)
        built = flow.refresh([], flow.default_report) if is_refreshed else None
    if as_json:
        print_json({"pulled": asdict(result), "build": asdict(built.build) if built else None})
        return
    spans = [(f"{span.since:%Y-%m-%d %H:%M:%S}", f"{span.until:%Y-%m-%d %H:%M:%S}") for span in result.spans]
    print_table(("pulled from (UTC)", "until"), spans)
    counts = (
        f"{result.rows_landed:,} rows landed, {result.rows_quarantined:,} quarantined, in {result.pieces:,} pieces."
    )
    remark(counts, is_always=bool(result.rows_quarantined))
    for note in result.notes:
        click.echo(f"skipped: {note}", err=True)
    if result.rows_quarantined:
        click.echo("See the quarantined rows: gpulake sql 'from quarantine'", err=True)
    if built:
        print_findings(built.build.findings)
        remark(f"Report: {flow.default_report}")
    else:
        remark("Next: gpulake build")
