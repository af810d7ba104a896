"""gpulake report pai: the published study of the PAI trace, from a lake."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page. [default: LAKE/pai.html]")
@lake_option
@json_option
def command(out: Path | None, lake: Path | None, as_json: bool) -> None:
    """The published study of the Alibaba PAI trace, drawn again from this lake.

    Every figure beside the published one, and how far it is off: findings first, on one HTML page that works offline.

    \b
    Example:  gpulake report pai --out pai.html
    """
    from gpulake.cli._output import print_json, print_table
    from gpulake.cli._progress import progress_bar
    from gpulake.flow import Flow
    from gpulake.show.pai.study import COLUMNS, short_rows

    config = settings(lake=lake)
    target = out or config.lake / "pai.html"
    with progress_bar(is_quiet=as_json) as report:
        found = Flow(config, report=report).write_study(target)
    if as_json:
        print_json({**found.as_dict(), "page": str(target)})
        return
    for headline in found.headlines:
        click.echo(f"• {headline.headline}")
        click.secho(f"  {headline.detail}", dim=True)
    print_table(COLUMNS, short_rows(found.figures))
    click.echo(target)
