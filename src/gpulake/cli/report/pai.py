"""gpulake report pai: the published study of the PAI trace, from a lake."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE
from gpulake.cli._output import print_json, print_table
from gpulake.cli._progress import progress_bar
from gpulake.flow import Flow


@click.command()
@click.option("--out", type=FILE, help="The page. [default: LAKE/pai.html]")
@flow_options
def command(out: Path | None, flow: Flow, as_json: bool) -> None:
    """The published study of the Alibaba PAI trace, drawn again from this lake.

    Every figure beside the published one, with the difference: findings first, on one HTML page that works offline.

    \b
    Example:  gpulake report pai --out pai.html
    """
    from gpulake.show.pai.study import COLUMNS, short_rows

    target = out or flow.config.lake / "pai.html"
    with progress_bar(is_quiet=as_json) as flow.report:
        study = flow.write_study(target)
    if as_json:
        print_json({**study.as_dict(), "page": str(target)})
        return
    for headline in study.headlines:
        click.echo(f"• {headline.headline}")
        click.secho(f"  {headline.detail}", dim=True)
    print_table(COLUMNS, short_rows(study.figures))
    click.echo(target)
