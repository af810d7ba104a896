"""gpulake report efficiency: the card of a user, or of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE
from gpulake.cli._output import print_json, print_screen
from gpulake.flow import Flow


@click.command()
@click.option("--user", help="The card of this user. [default: all users, and who wastes most]")
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--days", type=click.IntRange(min=1), help="Only the last DAYS days of each cluster. [default: all]")
@click.option("--out", type=FILE, help="Write it as an HTML page that works offline.")
@flow_options
def command(
    user: str | None, cluster: str | None, days: int | None, out: Path | None, flow: Flow, as_json: bool
) -> None:
    """What was held, used and wasted, what it cost, and the changes that would save most.

    \b
    Example:  gpulake report efficiency --user alice --days 30
    """
    card = flow.efficiency_card(user, cluster, days, out)
    if as_json:
        print_json(asdict(card))
    elif out:
        click.echo(out)
    else:
        from gpulake.show.card_text import card_text

        print_screen(card_text(card))
