"""gpulake collect stop"""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli.collect._options import dir_option, grace_option
from gpulake.collect import control
from gpulake.collect.control import Stopped
from gpulake.core.errors import UsageError


@click.command(short_help="Stop a collector.")
@dir_option
@click.option("--run-id", default="", help="The run. [default: the newest that is being collected]")
@click.option("--node-id", default="", help="The node. [default: all of the run on this host]")
@click.option("--all", "is_all", is_flag=True, help="Every run under the folder that is being collected.")
@grace_option
def command(base: Path, run_id: str, node_id: str, is_all: bool, grace: float) -> None:
    """Stop a collector: it finishes its tick, syncs it to the disk and exits; after the grace period it is killed.

    \b
    Example: gpulake collect stop --run-id night1
    """
    runs = control.find_runs(base, run_id, node_id)
    if not runs:
        none = f"no run {run_id!r}" if run_id else "no run"
        raise UsageError(f"{none} under {base}", "name its folder with --dir, or begin one: gpulake collect start")
    states = {run: control.run_status(run).state for run in runs}
    # A hidden run is tried only if no other is running, to report why it cannot be stopped.
    running = [run for run in runs if states[run] == "running"] or [run for run in runs if states[run] == "hidden"]
    if not node_id:
        running = [run for run in running if control.is_here(run)] or running
    if not is_all:
        running = [run for run in running if run.path.parent == running[0].path.parent]
    for run in running:
        stopped = control.stop(run, grace_seconds=grace)
        click.echo(f"{run.path}: {_word(stopped)}")
    if not running:
        click.echo(f"{runs[0].path}: not running")


def _word(stopped: Stopped) -> str:
    if stopped.pid is None:
        return "not running"
    return f"stopped (process {stopped.pid})" if stopped.signal == "TERM" else f"killed (process {stopped.pid})"
