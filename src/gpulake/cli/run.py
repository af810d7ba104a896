"""gpulake run: everything by itself, as a service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import config_file, json_option, lake_option, settings
from gpulake.cli._output import print_json, print_table
from gpulake.cli._verbs import Group
from gpulake.core.clock import SystemClock
from gpulake.core.config import FILE_NAME, Config
from gpulake.core.errors import ConfigError, GpulakeError, UsageError, require
from gpulake.core.words import label

EXAMPLE = f'name one in {FILE_NAME}: [run.sources.slurm] pull = ["slurm"]; or [run] folders = ["/srv/inbox"]'
COLUMNS = (
    "part",
    "state",
    "last success (UTC)",
    "covered until (UTC)",
    "rows landed",
    "rows/s",
    "lag",
    "MiB",
    "failures",
    "next (UTC)",
    "error",
)


standby_option = click.option(
    "--standby", "is_standby", is_flag=True, help="Wait for another one on this lake to end, then take over."
)


@click.group(cls=Group, invoke_without_command=True)
@lake_option
@standby_option
@click.pass_context
def command(context: click.Context, lake: Path | None, is_standby: bool) -> None:
    """Pull, land, build, alert and serve by itself, until it is stopped.

    What it follows is in [run] of gpulake.toml: live sources, streams, folders with files. What lands is built, at most
    once a minute; incidents go to the sinks of [alerts]; the dashboard is on 127.0.0.1:8080. Each part is a
    process: one that fails is tried again, and the others go on. docs/run.md has an example.

    \b
    Example:  gpulake run
              gpulake run ingest --standby
              gpulake run status
              gpulake run unit > /etc/systemd/system/gpulake.service
    """
    if context.invoked_subcommand is None:
        _run(settings(lake=lake), is_standby)


def _run(config: Config, is_standby: bool, role: str = "") -> None:
    import asyncio

    from gpulake.service.service import Service

    _check(config, role)
    if not config.has_lake:
        from gpulake.flow import Flow

        Flow(config).lake.create()

    def say(part: str, words: str) -> None:
        click.echo(f"{part}: {label(words, 500)}", err=True)

    say(f"gpulake run {role}".rstrip(), f"on {config.lake}; stop it with Ctrl-C, see it with: gpulake run status")

    async def serve() -> None:
        await Service(config, _common(config), SystemClock(), say, role).run(os.getpid(), is_standby)

    try:
        asyncio.run(serve())
    except* GpulakeError as group:
        raise group.exceptions[0] from None


def _common(config: Config) -> list[str]:
    """Which lake and which settings, wherever a part is started."""
    named = config_file() or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    chosen = ["--config", str(named.absolute())] if named else []
    return ["--lake", str(config.lake.absolute()), *chosen]


def _check(config: Config, role: str = "") -> None:
    """A wrong word of a source is an error now, and not of each pull."""
    from gpulake.cli._verbs import Verbs

    if role == "serve":
        require(bool(config.run.dashboard), "run.dashboard is empty", "write it like 127.0.0.1:8080")
    if role in ("build", "serve"):
        return
    if not config.run.sources and not config.run.folders:
        raise ConfigError("there is no source to follow in [run]", EXAMPLE)
    for name, source in config.run.sources.items():
        kind, given = ("ingest", list(source.ingest)) if source.ingest else ("pull", list(source.pull))
        if not given:
            raise ConfigError(f"pull of [run.sources.{name}] is empty", EXAMPLE)
        verbs = Verbs(kind, package=f"gpulake.cli.{kind}")
        try:
            with verbs.make_context(f"gpulake {kind}", given) as context:
                verb, found, rest = verbs.resolve_command(context, given)
                if found is not None:
                    found.make_context(verb, rest, parent=context).close()
        except (click.ClickException, click.exceptions.Exit) as error:
            words = error.format_message() if isinstance(error, click.ClickException) else "they ask for help"
            raise ConfigError(f"{kind} of [run.sources.{name}]: {words}", EXAMPLE) from error


def _role(name: str, words: str) -> None:
    """One role of the service as a command of its own."""

    def one(lake: Path | None, is_standby: bool) -> None:
        _run(settings(lake=lake), is_standby, name)

    one.__doc__ = f"""{words}

    The roles ingest, build and serve are processes of their own, on one machine or on several that share the lake's
    file system. Each role has one process that works; another one with --standby takes over when it ends.

    \b
    Example:  gpulake run {name} --standby
    """
    command.command(name)(lake_option(standby_option(one)))


_role("ingest", "Pull, follow streams and land files of folders: the part of gpulake run that brings rows in.")
_role("build", "Build what lands, on whichever machine; alert, recover, keep retention.")
_role("serve", "Serve the dashboard of builds that are made elsewhere.")


@command.command()
@lake_option
@json_option
def status(lake: Path | None, as_json: bool) -> None:
    """Say how each part stands: its last success, how far it is, why it failed.

    Exits with 1 if the service is not running or a part is failing.

    \b
    Example:  gpulake run status --json
    """
    from gpulake.core.service_state import read_state

    found = read_state(settings(lake=lake).lake)
    failing = [part["name"] for part in found["parts"] if part["failures"]]
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, [_line(part) for part in found["parts"]])
    for one in found.get("roles", [found]):
        if not one["is_running"]:
            start = f"gpulake run {one.get('role', '')}".rstrip()
            what = start if one.get("role") else "it"
            raise GpulakeError(
                f"{what} is not running; it last wrote at {one['changed_at'][:19]}", f"start it: {start}"
            )
    if failing:
        raise GpulakeError(f"failing: {', '.join(failing)}", "they are tried again; the reason is above")


def _line(part: Mapping[str, Any]) -> tuple[Any, ...]:
    times = (str(part[key] or "")[:19].replace("T", " ") for key in ("succeeded_at", "covered_until", "next_at"))
    succeeded, covered, following = times
    counts = (
        part["rows_landed"],
        part.get("rows_per_second") or "",
        "" if part.get("lag") is None else part["lag"],
        part.get("memory_mebibytes") or "",
        part["failures"],
    )
    return (part["name"], part["state"], succeeded, covered, *counts, following, label(part["error"], 200))


@command.command()
@lake_option
@click.option("--user", required=True, help="User of the service, who can write to the lake.")
@click.option("--role", type=click.Choice(["ingest", "build", "serve"]), help="This role alone.")
def unit(lake: Path | None, user: str, role: str | None) -> None:
    """Print a systemd unit that runs this service, and restarts it if it dies.

    Secrets, such as GPULAKE_PROMETHEUS_TOKEN, are read from /etc/gpulake/environment, if it is there.

    \b
    Example:  gpulake run unit --lake /srv/gpulake --user gpulake > /etc/systemd/system/gpulake.service
    """
    from gpulake.service.unit import unit

    config, role = settings(lake=lake), role or ""
    if not config.lake.is_absolute():
        raise UsageError(f"the lake of a service is {str(config.lake)!r}", "give --lake as an absolute path")
    _check(config, role)
    click.echo(unit(_common(config), config, user, role), nl=False)
