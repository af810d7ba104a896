"""Options that many verbs share. Nothing here imports the lake: the collector uses them, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpulake.core.config import Config, load

Function = Callable[..., Any]
ANY_PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


CONFIG = "gpulake.config"
QUIET = "gpulake.quiet"


def lake_option(function: Function) -> Function:
    """--lake, and --config, which `settings` finds by itself."""
    words = "The lake's folder. [default: from gpulake.toml or GPULAKE_LAKE, else ./lake]"
    option = click.option("--lake", "lake", type=FOLDER, help=words)
    return option(config_option(function))


def config_option(function: Function) -> Function:
    def keep(context: click.Context, _: click.Parameter, path: Path | None) -> None:
        context.meta[CONFIG] = path

    words = "A file of settings. [default: GPULAKE_CONFIG, else ./gpulake.toml]"
    return click.option("--config", type=FILE, expose_value=False, callback=keep, is_eager=True, help=words)(function)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document for machines.")(function)


def quiet_option(function: Function) -> Function:
    """--quiet, for cron: `is_quiet` says whether it was given, and what prints results and remarks asks it."""

    def keep(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        context.meta[QUIET] = is_given

    words = "Print errors, and what was skipped or quarantined; nothing else."
    option = click.option("--quiet", "-q", is_flag=True, expose_value=False, callback=keep, is_eager=True, help=words)
    return option(function)


def is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(QUIET))


def build_options(function: Function) -> Function:
    """What `build` and `refresh` build, which the command gets as `select`, `is_forced` and `without`."""
    words = "Build without this landing, and say so on every page until the next whole build; may be repeated."
    for option in (
        click.option("--without", multiple=True, metavar="ID|PATH", help=words),
        click.option(
            "--force", "is_forced", is_flag=True, help="Build even if nothing has changed since the last build."
        ),
        click.option(
            "--select", multiple=True, metavar="TABLE", help="Build this table and what it needs; may be repeated."
        ),
    ):
        function = option(function)
    return function


def settings(**flags: object) -> Config:
    """The configuration in force; a flag that is None was not given."""
    return load({**flags, "config": config_file()})


def config_file() -> Path | None:
    """What --config named."""
    context = click.get_current_context(silent=True)
    found: Path | None = context.meta.get(CONFIG) if context else None
    return found
