"""gpulake rules show: one rule, whole."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import UsageError, choice_hint


@click.command()
@click.argument("name")
@lake_option
@json_option
def command(name: str, lake: Path | None, as_json: bool) -> None:
    """Show a rule by its name; of a learned one (by its id, too) where it is from and what was checked.

    \b
    Example:  gpulake rules show cuda_out_of_memory
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import learned_document, print_definition, print_learned
    from gpulake.diagnose.learn.definitions import definition_of
    from gpulake.diagnose.rulebook.book import shipped_rules
    from gpulake.flow.learning import everything_learned, the_learned
    from gpulake.lake import Lake

    place = Lake(settings(lake=lake))
    shipped = {rule.name: rule for rule in shipped_rules()}
    if rule := shipped.get(name):
        document = {**definition_of(rule), "family": rule.family, "category": rule.category}
        if as_json:
            print_json(document)
        else:
            click.secho(rule.name, bold=True)
            print_definition(document)
        return
    learned = everything_learned(place)
    if not any(name and (one.name.startswith(name) or one.rule_id.startswith(name)) for one in learned):
        raise UsageError(f"no rule named {name!r}", choice_hint(name, [*shipped, *(one.name for one in learned)]))
    one = the_learned(place, name)
    if as_json:
        print_json(learned_document(one))
    else:
        print_learned(one)
