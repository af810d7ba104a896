"""gpulake rules propose: make a candidate of a line that told what happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.cli._words import Reason, by_option
from gpulake.core.diagnosis import Action
from gpulake.core.errors import UsageError

if TYPE_CHECKING:
    from gpulake.diagnose.learn.learning import Learned

# The roles of diagnose.rule, which is not imported for a word of help.
ROLES = ("cause", "cascade", "wrapper", "teardown", "clue", "success", "start", "progress", "noise")


@click.command()
@click.option("--incident", metavar="ID", help="From the evidence of this incident, which somebody confirmed.")
@click.option(
    "--evidence",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which line of the incident's evidence.",
)
@click.option("--line", help="From this line of a log.")
@click.option("--reason", type=Reason(), help="With --line: the reason of the failure.")
@click.option("--filter", "is_filter", is_flag=True, help="With --line: a filter that drops lines like it as routine.")
@click.option("--filters", "is_mining", is_flag=True, help="Filters from what recurs in healthy logs of the lake.")
@click.option(
    "--logs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="With --filters: in so many logs at least.",
)
@click.option("--cause", default="", help="The cause, in a sentence.")
@click.option("--remedy", default="", help="What to do about it, in a sentence or two.")
@click.option(
    "--recovery", type=click.Choice(get_args(Action)), help="[default: what the rules of the reason agree on]"
)
@click.option("--role", type=click.Choice(ROLES), default="cause", show_default=True)
@click.option("--pattern", default="", help="Your own pattern (RE2). [default: made from the line]")
@click.option(
    "--keep", multiple=True, metavar="TEXT", help="Keep this of the line as it stands, such as the 79 of an Xid."
)
@click.option("--name", default="", help="Name of the rule. [default: made from the line]")
@click.option("--note", default="", help="What the reviewer should know.")
@by_option
@lake_option
@json_option
def command(
    incident: str | None, line: str | None, is_mining: bool, lake: Path | None, as_json: bool, **said: Any
) -> None:
    """Propose a rule or a filter. It is checked, and counts for nothing until somebody approves it.

    Numbers, paths, hosts and quoted names of the line become classes; the rest stays word for word.

    \b
    Example:  gpulake rules propose --incident 3f2a
              gpulake rules propose --line "quota of volume 7 is used up" --reason DiskFull
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import learned_document, print_effects, print_learned
    from gpulake.core.clock import SystemClock
    from gpulake.flow.learning import effects, propose_filters
    from gpulake.lake import Lake

    if sum((incident is not None, line is not None, is_mining)) != 1:
        raise click.UsageError("give one of --incident ID, --line TEXT and --filters")
    place = Lake(settings(lake=lake))
    if is_mining:
        _print_mined(*propose_filters(place, SystemClock(), said["logs"], said["by"]), as_json)
        return
    one = _proposed(place, incident, line, said)
    if as_json:
        print_json(learned_document(one))
        return
    print_learned(one)
    print_effects(one, effects(place, one.candidate))
    click.echo("decide with: gpulake rules review", err=True)


def _proposed(place: Any, incident: str | None, line: str | None, said: dict[str, Any]) -> Learned:
    from gpulake.core.clock import SystemClock
    from gpulake.flow.learning import Wish, propose_filter, propose_for_incident, propose_line

    clock = SystemClock()
    words = {key: said[key] for key in ("pattern", "keep", "name")}
    full = {**words, "role": said["role"], "recovery": said["recovery"]}
    wish = Wish(said["by"], said["reason"] or "", said["cause"], said["remedy"], said["note"], full)
    if incident is not None:
        if said["reason"] or said["is_filter"]:
            raise click.UsageError("an incident has its reason; another one: gpulake incidents correct")
        return propose_for_incident(place, clock, incident, said["evidence"], wish)
    if said["is_filter"]:
        if said["reason"] or said["recovery"] or said["role"] != "cause":
            raise click.UsageError("a filter has neither --reason, --recovery nor --role")
        return propose_filter(place, clock, str(line), Wish(said["by"], note=said["note"], more=words))
    if not said["reason"] and said["role"] in ("cause", "cascade"):
        raise UsageError("a line alone does not say what it means", "say it with --reason, or make a --filter of it")
    return propose_line(place, clock, str(line), wish)


def _print_mined(made: list[Learned], refused: list[tuple[str, str]], as_json: bool) -> None:
    from gpulake.cli._output import print_json, print_table
    from gpulake.cli.rules._showing import learned_document
    from gpulake.core.words import label

    if as_json:
        left = [{"line": line, "why": why} for line, why in refused]
        print_json({"candidates": [learned_document(one) for one in made], "refused": left})
        return
    if not made:
        click.echo("no filter became a candidate: diagnose more healthy logs, or lower --logs", err=True)
    else:
        rows = [(one.rule_id, one.name, label(one.definition["pattern"])) for one in made]
        print_table(("id", "name", "pattern"), rows)
        click.echo("decide with: gpulake rules review", err=True)
    for line, why in refused:
        click.echo(f"not: {label(line, 100)}: {label(why, 300)}", err=True)
