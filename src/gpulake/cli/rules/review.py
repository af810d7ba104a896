"""gpulake rules review: a person decides what may count."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import by_option
from gpulake.core.errors import UsageError

if TYPE_CHECKING:
    from gpulake.diagnose.learn.learning import Learned
    from gpulake.lake import Lake

NOTHING = "there is nothing to review; propose a rule: gpulake rules propose --incident ID"


@click.command()
@click.option("--approve", multiple=True, metavar="ID", help="Approve this candidate.")
@click.option("--reject", multiple=True, metavar="ID", help="Reject this candidate.")
@click.option("--note", default="", help="Why.")
@click.option(
    "--allow-silencing",
    "is_silencing",
    is_flag=True,
    help="Approve even what can make a failed job look healthy: success, noise, teardown, start, progress.",
)
@by_option
@lake_option
@json_option
def command(
    approve: tuple[str, ...],
    reject: tuple[str, ...],
    note: str,
    is_silencing: bool,
    by: str,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Look at candidates one by one, with what they would match in recent logs, and approve or reject them.

    Every check runs again at approval, against the rules of now. Without a terminal, name them with --approve and
    --reject; without either, they are listed.

    \b
    Example:  gpulake rules review
              gpulake rules review --approve 1c9e --note "seen twice this week"
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import learned_document
    from gpulake.core.clock import SystemClock
    from gpulake.diagnose.learn.learning import decide
    from gpulake.flow.learning import everything_learned, the_learned
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake))
    if approve or reject:
        # All are found before the first is decided.
        meant = [(the_learned(place.open(), name), "approved") for name in approve]
        meant += [(the_learned(place.open(), name), "rejected") for name in reject]
        if len({one.rule_id for one, _ in meant}) < len(meant):
            raise UsageError("a candidate is named twice", "give each once, with --approve or with --reject")
        decided: list[Learned] = []
        try:
            for one, state in meant:
                decided.append(decide(place, SystemClock(), one, state, by, note, is_silencing))  # type: ignore[arg-type]
        finally:  # where one is refused, those before it are decided all the same
            _print_decided(decided, as_json)
        return
    waiting = [one for one in everything_learned(place) if one.state == "candidate"]
    if as_json:
        print_json([learned_document(one) for one in waiting])
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _one_by_one(place, waiting, by, is_silencing)
    else:
        _print_waiting(waiting)


def _print_decided(decided: list[Learned], as_json: bool) -> None:
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import learned_document
    from gpulake.core.words import label

    if as_json:
        print_json([learned_document(one) for one in decided])
        return
    for one in decided:
        click.echo(f"{one.rule_id} {label(one.name)}: {one.state}")


def _print_waiting(waiting: list[Learned]) -> None:
    from gpulake.cli._output import print_table
    from gpulake.core.words import label

    if not waiting:
        click.echo(NOTHING, err=True)
        return
    rows = [
        (one.rule_id, one.kind, label(one.name), label(one.definition.get("role", "")), label(one.proposed_by, 40))
        for one in waiting
    ]
    print_table(("id", "kind", "name", "role", "proposed by"), rows)


def _one_by_one(place: Lake, waiting: list[Learned], by: str, is_silencing: bool) -> None:
    from gpulake.cli.rules._showing import print_effects, print_learned, say
    from gpulake.core.clock import SystemClock
    from gpulake.diagnose.learn.learning import decide
    from gpulake.flow.learning import effects

    if not waiting:
        click.echo(NOTHING, err=True)
    for number, one in enumerate(waiting, 1):
        click.echo(f"\n{number} of {len(waiting)}")
        print_learned(one)
        if one.rule is not None:
            print_effects(one, effects(place, one.candidate))
        answer = click.prompt("approve? yes, no, skip or quit", type=click.Choice(["y", "n", "s", "q"]), default="s")
        if answer == "q":
            return
        if answer == "s":
            continue
        note = click.prompt("why", default="", show_default=False)
        try:
            decided = decide(
                place, SystemClock(), one, "approved" if answer == "y" else "rejected", by, note, is_silencing
            )
            click.echo(decided.state)
        except UsageError as error:  # the next one may be fine
            say(f"{error.message}; {error.hint}")
