"""gpulake rules export: what was learned, for others."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli.rules._showing import warn
from gpulake.flow import Flow


@click.command()
@flow_options
def command(flow: Flow, as_json: bool) -> None:
    """Print the approved rules as TOML, with paths, hosts, addresses and quoted names of their examples replaced.

    \b
    Example:  gpulake rules export > our_rules.toml
    """
    from gpulake.diagnose.learn.definitions import as_toml
    from gpulake.diagnose.learn.proposing import shareable

    definitions = shareable(flow.lake.open(), warn)
    if as_json:
        print_json(definitions)
    elif not definitions:
        click.echo("no learned rule was approved yet; see: gpulake rules review", err=True)
    else:
        click.echo(
            as_toml(definitions, "Learned rules, as approved. Check them with: gpulake rules check FILE"), nl=False
        )
