"""gpulake rules show: one rule in full."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli.rules._showing import learned_document, print_definition, print_learned
from gpulake.core.errors import UsageError, choice_hint
from gpulake.flow import Flow


@click.command()
@click.argument("name")
@flow_options
def command(name: str, flow: Flow, as_json: bool) -> None:
    """Show a rule by its name; a learned one (also by its id) with its origin and its checks.

    \b
    Example:  gpulake rules show cuda_out_of_memory
    """
    from gpulake.diagnose.learn.definitions import definition_of
    from gpulake.diagnose.learn.proposing import everything_learned, the_learned
    from gpulake.diagnose.rulebook.book import shipped_rules

    shipped = {rule.name: rule for rule in shipped_rules()}
    if rule := shipped.get(name):
        document = {**definition_of(rule), "family": rule.family, "category": rule.category}
        if as_json:
            print_json(document)
        else:
            click.secho(rule.name, bold=True)
            print_definition(document)
        return
    learned = everything_learned(flow.lake)
    if not any(name and (one.name.startswith(name) or one.rule_id.startswith(name)) for one in learned):
        raise UsageError(f"no rule named {name!r}", choice_hint(name, [*shipped, *(one.name for one in learned)]))
    one = the_learned(flow.lake, name)
    if as_json:
        print_json(learned_document(one))
    else:
        print_learned(one)
