"""gpulake rules retire: an approved rule counts no more."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import by_option


@click.command()
@click.argument("name")
@click.option("--note", default="", help="Why.")
@by_option
@lake_option
@json_option
def command(name: str, note: str, by: str, lake: Path | None, as_json: bool) -> None:
    """Retire a learned rule or filter, by its name or its id. The journal keeps it.

    \b
    Example:  gpulake rules retire learned_quota_is_used_up --note "the storage has no quota now"
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import learned_document
    from gpulake.core.clock import SystemClock
    from gpulake.core.words import label
    from gpulake.diagnose.learn.learning import decide
    from gpulake.flow.learning import the_learned
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake)).open()
    one = decide(place, SystemClock(), the_learned(place, name), "retired", by, note)
    if as_json:
        print_json(learned_document(one))
    else:
        click.echo(f"{one.rule_id} {label(one.name)}: {one.state}")
