"""What every verb takes that changes incidents."""

from __future__ import annotations

import click

from gpulake.cli._options import Function, json_option, lake_option
from gpulake.cli._words import by_option

ids_argument = click.argument("incidents", metavar="ID...", nargs=-1, required=True)


def change_options(function: Function) -> Function:
    """What to note, who says so, and in which lake."""
    note = click.option("--note", default="", help="What others should know.")
    return note(by_option(lake_option(json_option(function))))
