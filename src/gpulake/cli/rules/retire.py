"""gpulake rules retire: take an approved rule out of force."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli._words import by_option
from gpulake.cli.rules._showing import learned_document, print_states
from gpulake.flow import Flow


@click.command()
@click.argument("name")
@click.option("--note", default="", help="Why.")
@by_option
@flow_options
def command(name: str, note: str, by: str, flow: Flow, as_json: bool) -> None:
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
