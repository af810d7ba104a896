"""gpulake collect exec: run a command, and trace it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gpulake.cli.collect._options import dir_option
from gpulake.core.errors import UsageError
from gpulake.core.words import label


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD [ARG]...")
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="The run's folder on this node.")
@click.option(
    "--run-id", default="", help="Or the run, with --dir and --node-id: DIR/RUN_ID/NODE_ID is its folder. [env: RUN_ID]"
)
@dir_option
@click.option("--node-id", "node", default="", help="This node. [default: the run's, or the host's name]")
@click.option("--stage", default="", help="Its stage. [default: the run's]")
@click.option("--module", default="", help="Name of what runs. [default: the program's]")
@click.option("--app", default="", help="Application that it is a part of. [default: the module's name]")
@click.option("--input", "input_label", default=None, help="What it reads, for the record.")
@click.option(
    "--output",
    "output_label",
    default=None,
    help="What it writes, for the record. [default: the file that its output goes to]",
)
@click.option(
    "--ts-enqueue",
    envvar="TS_ENQUEUE",
    default=None,
    help="When it was requested, in milliseconds of the epoch. [env: TS_ENQUEUE]",
)
@click.option("--cpus", default="", help="Run it on these CPUs only, such as 0-3,7.")
def command(
    arguments: tuple[str, ...],
    run_dir: Path | None,
    run_id: str,
    base: Path,
    node: str,
    stage: str,
    module: str,
    app: str,
    input_label: str | None,
    output_label: str | None,
    ts_enqueue: str | None,
    cpus: str,
) -> None:
    """Run a command and trace it: when it began and ended, its exit code, CPU time, bytes and pid.

    The command runs as it would alone: signals reach it, its exit code is the exit code (128 and the signal where one
    killed it, 127 where there is no such program, 126 where it cannot be run). It gets TRACEPARENT, so that its
    calls belong to the same trace. The collector need not run; where it does, --pid-dir RUN_DIR/pids samples the
    command from its first moment.

    \b
    Example:  gpulake collect exec --run-id night1 -- ffmpeg -i in.mp4 out.webm
    """
    from gpulake.collect.adapters.exec import Command, cpus_of, run_command
    from gpulake.collect.tracing.invocation import place_of
    from gpulake.core.clock import SystemClock

    place = place_of(_folder(run_dir, run_id, base, node), node=node if run_dir else "", stage=stage)
    traced = Command(
        arguments=arguments,
        module=module,
        app=app,
        input=input_label,
        output=output_label,
        enqueued_ms=_milliseconds(ts_enqueue),
        cpus=cpus_of(cpus, os.sched_getaffinity(0)),
        environment=os.environ,
    )
    ended = run_command(traced, place, SystemClock(), lambda message: click.echo(f"gpulake: {message}", err=True))
    if ended.error:
        click.echo(f"error: cannot run {label(arguments[0])!r}: {ended.error}", err=True)
        click.echo("hint: is it installed, on PATH, and executable?", err=True)
    raise SystemExit(ended.code)


def _folder(run_dir: Path | None, run_id: str, base: Path, node: str) -> Path:
    from gpulake.collect.identity import identify

    if run_dir is None:
        run_id = run_id or os.environ.get("RUN_ID", "")
    if (run_dir is None) == (not run_id):
        raise UsageError("which run is it?", "give --run-dir, or --run-id")
    return run_dir or base / run_id / identify(run_id=run_id, node_id=node).node_id


def _milliseconds(text: str | None) -> int | None:
    """An invalid value is reported and ignored: it must not keep the command from running."""
    if text is None or (text.isascii() and text.isdigit() and len(text) < 15):
        return None if text is None else int(text)
    click.echo(f"gpulake: --ts-enqueue {label(text)!r} is no count of milliseconds, and is ignored", err=True)
    return None
