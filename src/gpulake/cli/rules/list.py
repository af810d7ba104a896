"""gpulake rules list: what the diagnosis knows."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli.rules._showing import learned_document, warn
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.words import label
from gpulake.flow import Flow


@click.command()
@click.option("--family", help="Only the rules of this file, such as gpu_memory.")
@click.option("--learned", "is_learned", is_flag=True, help="Learned rules in every state, with their ids.")
@flow_options
def command(family: str | None, is_learned: bool, flow: Flow, as_json: bool) -> None:
    """List the rules in force: the shipped ones, and learned ones that were approved.

    \b
    Example:  gpulake rules list --family gpu_memory
    """
    from gpulake.diagnose.learn.definitions import definition_of
    from gpulake.diagnose.learn.proposing import everything_learned, rules_in_force

    if is_learned:
        known = everything_learned(flow.lake)
        if as_json:
            print_json([learned_document(one) for one in known])
            return
        if not known:
            click.echo("nothing has been learned yet; propose a rule: gpulake rules propose --incident ID", err=True)
            return
        rows = [
            (
                *(one.rule_id, one.state, one.kind, label(one.name)),
                label(one.definition.get("reason", ""), 40),
                label(one.proposed_by, 40),
            )
            for one in known
        ]
        print_table(("id", "state", "kind", "name", "reason", "proposed by"), rows)
        return
    rules = rules_in_force(flow.lake, warn)
    if family is not None:
        families = {rule.family for rule in rules}
        if family not in families:
            raise UsageError(f"no rules of family {family!r}", choice_hint(family, families))
        rules = tuple(rule for rule in rules if rule.family == family)
    if as_json:
        print_json([{**definition_of(rule), "family": rule.family, "category": rule.category} for rule in rules])
        return
    columns = ("rule", "family", "role", "reason", "recovery", "cause")
    print_table(
        columns,
        [
            (rule.name, rule.family, rule.role, rule.reason, rule.recovery if rule.reason else "", label(rule.cause))
            for rule in rules
        ],
    )
