"""gpulake report: pages that people read."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import lake_option, settings
from gpulake.cli._report_pai import pai


@click.group()
def command() -> None:
    """Write reports from the last complete build."""


command.add_command(pai)


@command.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page. [default: LAKE/report.html]")
@lake_option
def overview(out: Path | None, lake: Path | None) -> None:
    """Findings, plots and what they rest on, as one HTML file that works offline.

    \b
    Example:  gpulake report overview --out report.html
    """
    from gpulake.flow import Flow

    config = settings(lake=lake)
    target = out or config.lake / "report.html"
    Flow(config).write_report(target)
    click.echo(target)
