"""gpulake report efficiency: the card of a user, or of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.option("--user", help="The card of this user. [default: all users, and who wastes most]")
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--days", type=click.IntRange(min=1), help="The last so many days of each cluster. [default: all]")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it as an HTML page that works offline."
)
@lake_option
@json_option
def command(
    user: str | None, cluster: str | None, days: int | None, out: Path | None, lake: Path | None, as_json: bool
) -> None:
    """What was held, used and wasted, what it cost, and the changes that would save most.

    \b
    Example:  gpulake report efficiency --user alice --days 30
    """
    from gpulake.cli._output import print_json, print_screen
    from gpulake.flow import Flow

    card = Flow(settings(lake=lake)).efficiency_card(user, cluster, days, out)
    if as_json:
        print_json(asdict(card))
    elif out:
        click.echo(out)
    else:
        from gpulake.show.card_text import card_text

        print_screen(card_text(card))
