"""Options that many verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpulake.core.config import Config, load

Function = Callable[..., Any]


def lake_option(function: Function) -> Function:
    return click.option(
        "--lake",
        "lake",
        type=click.Path(path_type=Path, file_okay=False),
        help="The lake's folder. [default: from gpulake.toml or GPULAKE_LAKE, else ./lake]",
    )(function)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document for machines.")(function)


def without_option(function: Function) -> Function:
    words = "Build without what landed so, and say so on every page until the next whole build; may be repeated."
    return click.option("--without", multiple=True, metavar="ID|PATH", help=words)(function)


def settings(**flags: object) -> Config:
    """The configuration in force; a flag that is None was not given."""
    return load(flags)
