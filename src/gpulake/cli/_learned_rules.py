"""The verbs that propose, review and retire learned rules; and a rule as text and as JSON. Its words may come from a
log: they are printed as labels and never interpreted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._words import Reason, by_option
from gpulake.core.diagnosis import Action
from gpulake.core.errors import UsageError
from gpulake.core.words import count, label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.learn.candidates import Check
    from gpulake.diagnose.learn.learning import Learned, State
    from gpulake.diagnose.learn.proposing import Effect

MOST_TEXT = 400
MOST_EFFECTS = 10
# The roles of diagnose.rulebook.rule, which is not imported for help alone.
ROLES = ("cause", "cascade", "wrapper", "teardown", "clue", "success", "start", "progress", "noise")


def warn(message: str) -> None:
    click.echo(f"warning: {label(message, 600)}", err=True)


def learned_document(one: Learned) -> dict[str, Any]:
    document = asdict(one)
    del document["rule"]
    times = {name: document[name].isoformat() for name in ("proposed_at", "changed_at")}
    return {**document, **times, "is_silencing": one.rule is not None and one.candidate.is_silencing}


def print_definition(definition: Mapping[str, Any]) -> None:
    for key, value in definition.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            click.echo(f"  {key:<10} {label(item, MOST_TEXT)}")


def print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        words = check.check.replace("_", " ")
        click.echo(f"  {'✓' if check.passed else '✗'} {words}{'' if check.passed else ': ' + label(check.says, 600)}")


def print_states(changed: Sequence[Learned], as_json: bool) -> None:
    if as_json:
        print_json([learned_document(one) for one in changed])
        return
    for one in changed:
        click.echo(f"{one.rule_id} {label(one.name)}: {one.state}")


def print_learned(one: Learned) -> None:
    click.secho(f"{label(one.name)} ({one.rule_id}): {one.state} {one.kind}", bold=True)
    print_definition(one.definition)
    if one.trouble:
        warn(f"this version cannot read it: {one.trouble}")
    click.echo(f"proposed by {label(one.proposed_by, 100)} at {one.proposed_at:%Y-%m-%d %H:%M} UTC")
    if one.state != "candidate":
        click.echo(f"{one.state} by {label(one.changed_by, 100)} at {one.changed_at:%Y-%m-%d %H:%M} UTC")
    if one.note:
        click.echo(f"note: {label(one.note, MOST_TEXT)}")
    print_checks(one.checks)


def print_effects(one: Learned, found: Sequence[Effect]) -> None:
    """Like a diff: + is new, ~ has another explanation now."""
    logs = len({effect.log for effect in found})
    lines = sum(effect.lines for effect in found)
    verb = "drop" if one.kind == "filter" else "match"
    click.echo(f"in recent logs it would {verb} {count(lines, 'line')} of {count(logs, 'log')}")
    for effect in found[:MOST_EFFECTS]:
        now = f"   (now: {effect.now})" if effect.now else ""
        click.secho(f"  {effect.sign} {label(effect.text, 200)}{now}", fg="yellow" if effect.now else "green")
    if len(found) > MOST_EFFECTS:
        click.echo(f"  and {len(found) - MOST_EFFECTS} more")
    if one.candidate.is_silencing:
        warn(f"role {one.candidate.rule.role}: it can make a failed job look healthy")


@click.command("propose")
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
def propose(incident: str | None, line: str | None, is_mining: bool, flow: Flow, as_json: bool, **given: Any) -> None:
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
        none = "no filter became a candidate: diagnose more healthy logs, or lower --logs"
        print_proposed(made, refused, as_json, none)
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


def print_proposed(made: list[Learned], refused: list[tuple[str, str]], as_json: bool, if_none: str) -> None:
    if as_json:
        left = [{"line": line, "why": why} for line, why in refused]
        print_json({"candidates": [learned_document(one) for one in made], "refused": left})
        return
    if not made:
        click.echo(if_none, err=True)
    else:
        rows = [(one.rule_id, one.name, label(one.definition["pattern"])) for one in made]
        print_table(("id", "name", "pattern"), rows)
        click.echo("decide with: gpulake rules review", err=True)
    for line, why in refused:
        click.echo(f"refused: {label(line, 100)}: {label(why, 300)}", err=True)


@click.command("review")
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
def review(
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


@click.command("retire")
@click.argument("name")
@click.option("--note", default="", help="Why.")
@by_option
@flow_options
def retire(name: str, note: str, by: str, flow: Flow, as_json: bool) -> None:
    """Retire a learned rule or filter, by its name or its id. The journal keeps it.

    \b
    Example:  gpulake rules retire learned_quota_is_used_up --note "the storage has no quota now"
    """
    from gpulake.diagnose.learn.proposing import the_learned

    one = flow.decide_rule(the_learned(flow.lake.open(), name), "retired", by, note)
    if as_json:
        print_json(learned_document(one))
    else:
        print_states([one], as_json)
