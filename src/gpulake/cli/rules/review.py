"""gpulake rules review: a person approves or rejects candidates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._words import by_option
from gpulake.cli.rules._showing import learned_document, print_effects, print_learned, print_states, warn
from gpulake.core.errors import UsageError
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.learn.learning import Learned, State


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
@flow_options
def command(
    approve: tuple[str, ...], reject: tuple[str, ...], note: str, is_silencing: bool, by: str, flow: Flow, as_json: bool
) -> None:
    """Look at candidates one by one, with what they would match in recent logs, and approve or reject them.

    Every check runs again at approval, against the rules then in force. Without a terminal, name them with --approve
    and --reject; without either, they are listed.

    \b
    Example:  gpulake rules review
              gpulake rules review --approve 1c9e --note "seen twice this week"
    """
    from gpulake.diagnose.learn.proposing import everything_learned, the_learned

    if approve or reject:
        # Every id is resolved before the first is decided.
        chosen: list[tuple[Learned, State]] = [(the_learned(flow.lake.open(), name), "approved") for name in approve]
        chosen += [(the_learned(flow.lake.open(), name), "rejected") for name in reject]
        if len({one.rule_id for one, _ in chosen}) < len(chosen):
            raise UsageError("a candidate is named twice", "give each once, with --approve or with --reject")
        decided: list[Learned] = []
        try:
            for one, state in chosen:
                decided.append(flow.decide_rule(one, state, by, note, is_silencing))
        finally:  # where one is refused, those before it are decided all the same
            print_states(decided, as_json)
        return
    waiting = [one for one in everything_learned(flow.lake) if one.state == "candidate"]
    if as_json:
        print_json([learned_document(one) for one in waiting])
    elif not waiting:
        click.echo("there is nothing to review; propose a rule: gpulake rules propose --incident ID", err=True)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _one_by_one(flow, waiting, by, is_silencing)
    else:
        rows = [
            (one.rule_id, one.kind, label(one.name), label(one.definition.get("role", "")), label(one.proposed_by, 40))
            for one in waiting
        ]
        print_table(("id", "kind", "name", "role", "proposed by"), rows)


def _one_by_one(flow: Flow, waiting: list[Learned], by: str, is_silencing: bool) -> None:
    from gpulake.diagnose.learn.proposing import effects

    for number, one in enumerate(waiting, 1):
        click.echo(f"\n{number} of {len(waiting)}")
        print_learned(one)
        if one.rule is not None:
            print_effects(one, effects(flow.lake, one.candidate))
        answer = click.prompt("approve? yes, no, skip or quit", type=click.Choice(["y", "n", "s", "q"]), default="s")
        if answer == "q":
            return
        if answer == "s":
            continue
        note = click.prompt("why", default="", show_default=False)
        try:
            click.echo(flow.decide_rule(one, "approved" if answer == "y" else "rejected", by, note, is_silencing).state)
        except UsageError as error:  # the next one may be fine
            warn(f"{error.message}; {error.hint}")
