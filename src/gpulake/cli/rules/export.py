"""gpulake rules export: what was learned, for others."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@lake_option
@json_option
def command(lake: Path | None, as_json: bool) -> None:
    """Print the approved rules as TOML. Paths, hosts, addresses and quoted names of their examples are made up.

    \b
    Example:  gpulake rules export > our_rules.toml
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import say
    from gpulake.diagnose.learn.definitions import as_toml
    from gpulake.flow.learning import shareable
    from gpulake.lake import Lake

    definitions = shareable(Lake(settings(lake=lake)).open(), say)
    if as_json:
        print_json(definitions)
    elif not definitions:
        click.echo("no learned rule was approved yet; see: gpulake rules review", err=True)
    else:
        click.echo(
            as_toml(definitions, "Learned rules, as approved. Check them with: gpulake rules check FILE"), nl=False
        )
