"""gpulake collect deploy"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli.collect._options import new_run_id
from gpulake.collect.reading import one_line
from gpulake.core.errors import GpulakeError, UsageError

if TYPE_CHECKING:
    from gpulake.collect.fleet import Answer, Fleet

ACTIONS = ("start", "status", "stop", "fetch")


@click.command(
    short_help="Collect on many nodes over ssh.",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.option("--hosts", "file", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A host a line.")
@click.option("--run-id", envvar="RUN_ID", show_envvar=True, default="", help="The run. [default: a new one]")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where fetch puts the merged run.")
@click.option("--ssh", default="", metavar="COMMAND", help="Instead of ssh, such as 'ssh -F config -J gate'.")
@click.option("--python", default="python3", show_default=True, help="Python 3.11 or newer of the nodes.")
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION]...")
def command(
    file: Path, run_id: str, out: Path | None, ssh: str, python: str, action: str, words: tuple[str, ...]
) -> None:
    """Start, look at, stop and fetch collectors of many nodes, over ssh and without root.

    A line of the file is a host as ssh takes it, and options of its collector, such as --stage=edge. What follows the
    action are options of gpulake collect start, status or stop. The collector is one file, copied to .cache/gpulake of
    the user there; runs are in runs/. fetch parses the run of all nodes and merges it into OUT. A host that fails costs
    only itself; the exit code is 1 then.

    \b
    Example:  gpulake collect deploy --hosts hosts.txt --run-id night1 start --interval 5s
              gpulake collect deploy --hosts hosts.txt --run-id night1 --out night1 fetch
    """
    from gpulake.collect.fleet import Fleet, read_hosts

    try:
        hosts = read_hosts(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}", "write a host a line, as ssh takes it") from error
    fleet = Fleet(hosts, ssh, python)
    if action == "fetch":
        if not run_id or out is None or words:
            raise UsageError("which run is to be fetched, and where to?", "give --run-id and --out, before the action")
        _fetch(fleet, run_id, out, len(hosts))
        return
    if action == "start":
        run_id = run_id or new_run_id()
        click.echo(f"run {run_id}", err=True)
    named = [f"--run-id={run_id}"] if run_id else []
    _report(fleet.ask(action, *named, *words, is_start=action == "start"), len(hosts))


def _report(answers: Iterable[Answer], count: int) -> None:
    failed = 0
    for one in answers:
        for line in one.output.splitlines():
            click.echo(one_line(f"{one.host.name}: {line}"))
        if one.code:
            failed += 1
            click.echo(one_line(f"{one.host.name}: failed: {one.error or f'exit code {one.code}'}"), err=True)
    if failed:
        raise GpulakeError(f"{failed} of {count} hosts failed", "their own words are above")


def _fetch(fleet: Fleet, run_id: str, out: Path, count: int) -> None:
    from gpulake.collect.cctf.merge import merge
    from gpulake.collect.cctf.parse import parse

    raw = out.with_name(f"{out.name}.nodes")
    answers = [replace(one, output="") for one in fleet.fetch(run_id, raw)]
    nodes = sorted(path.parent for path in raw.glob("*/*/*/segments"))
    for node in nodes:
        parse(node)
    if nodes:
        merge(nodes, out)
        click.echo(out)
    _report(answers, count)
