"""gpulake report overview: the findings and the plots."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._flow import flow_option
from gpulake.cli._options import FILE
from gpulake.flow import Flow


@click.command()
@click.option("--out", type=FILE, help="The page. [default: LAKE/report.html]")
@flow_option
def command(out: Path | None, flow: Flow) -> None:
    """Findings, plots and the data behind them, as one HTML file that works offline.

    \b
    Example:  gpulake report overview --out report.html
    """
    target = out or flow.default_report
    flow.write_report(target)
    click.echo(target)
