"""gpulake config: the settings in force, where they come from, and those that the lake keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import FILE, FOLDER, config_file, config_option, json_option
from gpulake.cli._output import print_json, print_table
from gpulake.cli._verbs import Group
from gpulake.core.config import Loaded, load_layers
from gpulake.core.errors import UsageError
from gpulake.core.lake_settings import dotted, key_of, leaves, read_toml, settings_of, split, value_of

LAKE = click.option("--lake", type=FOLDER, help="The lake's folder. [default: from gpulake.toml or GPULAKE_LAKE]")


@click.group(cls=Group)
def command() -> None:
    """Show, change and check settings. Those that decide a lake's numbers are kept in the lake."""


def _loaded(lake: Path | None) -> Loaded:
    return load_layers({"lake": lake, "config": config_file()})


@command.command()
@click.argument("prefix", required=False, default="")
@LAKE
@config_option
@json_option
def show(prefix: str, lake: Path | None, as_json: bool) -> None:
    """Every setting, or those whose name begins with PREFIX, its value, and where it comes from.

    A flag beats the environment, which beats the lake's own settings, which beat gpulake.toml, which beats the default.

    \b
    Example:  gpulake config show clusters.tiger
    """
    loaded = _loaded(lake)
    rows = [
        {"setting": dotted(key), "value": value, "from": loaded.origin(key)}
        for key, value in settings_of(loaded.config)
        if dotted(key).startswith(prefix)
    ]
    if as_json:
        print_json(rows)
        return
    print_table(("setting", "value", "from"), [(row["setting"], _word(row["value"]), row["from"]) for row in rows])
    for conflict in loaded.conflicts:
        click.echo(f"conflict: {conflict.message}", err=True)


@command.command("set")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--from", "file", type=FILE, help="Take every setting of a lake that this file has.")
@LAKE
@config_option
def set_(key: str | None, value: str | None, file: Path | None, lake: Path | None) -> None:
    """Set KEY to VALUE in the lake's own file, LAKE/gpulake.toml. The next build uses it.

    The value is checked first; comments in the file stay. A name of a cluster that the lake does not have is an error.

    \b
    Example:  gpulake config set clusters.tiger.time_zone America/New_York
              gpulake config set gpu_types.h100.price_per_hour 2.5
    """
    from gpulake.flow import Flow
    from gpulake.flow.settings import change_settings

    if (key is None or value is None) == (file is None):
        raise UsageError("give KEY and VALUE, or --from FILE", "example: gpulake config set currency EUR")
    changes: dict[tuple[str, ...], Any] = {}
    if file is not None:
        if not file.is_file():
            raise UsageError(f"no file at {file}", "check the path")
        changes = leaves(split(read_toml(file))[0])
    elif key is not None and value is not None:
        changes = {key_of(key): value_of(value)}
    config = _loaded(lake).config
    flow = Flow(config)
    # Settings that the lake had from a file until now stay in force.
    changes = {**leaves(config.unclaimed), **changes}
    opened = flow.lake.create()
    with flow.step("settings") as detail:
        change_settings(opened, changes)
        detail["settings"] = sorted(map(dotted, changes))
    for name, given in changes.items():
        click.echo(f"{dotted(name)} = {_word(given)}  ({config.own_file})")
    click.echo("Next: gpulake build", err=True)


@command.command()
@LAKE
@config_option
@json_option
def check(lake: Path | None, as_json: bool) -> None:
    """Read every setting, and say what is wrong: values, conflicts between files, names that the lake does not have.

    \b
    Example:  gpulake config check
    """
    from gpulake.flow.settings import problems
    from gpulake.lake import Lake

    loaded = _loaded(lake)
    found = [f"{error.message}; {error.hint}" for error in loaded.conflicts]
    found += problems(Lake(loaded.config), loaded.config)
    places = [layer.where for layer in loaded.layers if layer.values]
    if as_json:
        print_json({"read": places, "problems": found})
    else:
        for problem in found:
            click.echo(problem)
        click.echo(f"settings from: {', '.join(places) or 'defaults'}; problems: {len(found)}", err=True)
    if found:
        raise UsageError(f"{len(found)} settings need a look", "see: gpulake config show")


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
