"""gpulake rules propose: make a candidate from a line of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._words import Reason, by_option
from gpulake.cli.rules._showing import learned_document, print_effects, print_learned
from gpulake.core.diagnosis import Action
from gpulake.core.errors import UsageError
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.learn.learning import Learned

# The roles of diagnose.rulebook.rule, which is not imported for help alone.
ROLES = ("cause", "cascade", "wrapper", "teardown", "clue", "success", "start", "progress", "noise")


@click.command()
@click.option("--incident", metavar="ID", help="From the evidence of this confirmed incident.")
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
    help="With --filters: in at least N logs.",
)
@click.option("--cause", default="", help="The cause, in a sentence.")
@click.option("--remedy", default="", help="What to do about it, in a sentence or two.")
@click.option(
    "--recovery", type=click.Choice(get_args(Action)), help="[default: what the rules of the reason agree on]"
)
@click.option("--role", type=click.Choice(ROLES), default="cause", show_default=True)
@click.option("--pattern", default="", help="Your own pattern (RE2). [default: made from the line]")
@click.option(
    "--keep", multiple=True, metavar="TEXT", help="Keep this part of the line literally, such as the 79 of an Xid."
)
@click.option("--name", default="", help="Name of the rule. [default: made from the line]")
@click.option("--note", default="", help="What the reviewer should know.")
@by_option
@flow_options
def command(incident: str | None, line: str | None, is_mining: bool, flow: Flow, as_json: bool, **given: Any) -> None:
    """Propose a rule or a filter. It is checked, and has no effect until a person approves it.

    Numbers, paths, hosts and quoted names of the line become classes; the rest stays literal.

    \b
    Example:  gpulake rules propose --incident 3f2a
              gpulake rules propose --line "quota of volume 7 is used up" --reason DiskFull
    """
    from gpulake.diagnose.learn.proposing import effects, propose_filters

    if sum((incident is not None, line is not None, is_mining)) != 1:
        raise click.UsageError("give one of --incident ID, --line TEXT and --filters")
    if line is None:
        flow.lake.open()
    if incident is not None and (given["reason"] or given["is_filter"]):
        raise click.UsageError("an incident has its reason; another one: gpulake incidents correct")
    if line is not None and given["is_filter"]:
        if given["reason"] or given["recovery"] or given["role"] != "cause":
            raise click.UsageError("a filter has neither --reason, --recovery nor --role")
    elif line is not None and not given["reason"] and given["role"] in ("cause", "cascade"):
        raise UsageError("a line alone does not say what it means", "say it with --reason, or make a --filter of it")
    if is_mining:
        with flow.changing_rules():
            made, refused = propose_filters(flow.lake, flow.clock, given["logs"], given["by"])
        _print_mined(made, refused, as_json)
        return
    with flow.changing_rules():
        one = _propose(flow, incident, line, given)
    if as_json:
        print_json(learned_document(one))
        return
    print_learned(one)
    print_effects(one, effects(flow.lake, one.candidate))
    click.echo("decide with: gpulake rules review", err=True)


def _propose(flow: Flow, incident: str | None, line: str | None, given: dict[str, Any]) -> Learned:
    from gpulake.diagnose.learn.proposing import Proposal, propose_filter, propose_for_incident, propose_line
    from gpulake.flow.incidents import read_incident

    words = {key: given[key] for key in ("pattern", "keep", "name")}
    full = {**words, "role": given["role"], "recovery": given["recovery"]}
    proposal = Proposal(given["by"], given["reason"] or "", given["cause"], given["remedy"], given["note"], full)
    if incident is not None:
        case = read_incident(flow.lake, incident)
        return propose_for_incident(flow.lake, flow.clock, case.incident, case.diagnosis, given["evidence"], proposal)
    if given["is_filter"]:
        return propose_filter(flow.lake, flow.clock, str(line), Proposal(given["by"], note=given["note"], more=words))
    return propose_line(flow.lake, flow.clock, str(line), proposal)


def _print_mined(made: list[Learned], refused: list[tuple[str, str]], as_json: bool) -> None:
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
        click.echo(f"refused: {label(line, 100)}: {label(why, 300)}", err=True)
