"""gpulake report overview: the findings and the plots."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import lake_option, settings


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page. [default: LAKE/report.html]")
@lake_option
def command(out: Path | None, lake: Path | None) -> None:
    """Findings, plots and what they rest on, as one HTML file that works offline.

    \b
    Example:  gpulake report overview --out report.html
    """
    from gpulake.flow import Flow

    config = settings(lake=lake)
    target = out or config.lake / "report.html"
    Flow(config).write_report(target)
    click.echo(target)
