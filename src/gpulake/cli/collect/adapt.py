"""gpulake collect adapt: access logs, accounting and spans into a run."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import json_option
from gpulake.core.errors import InputError, UsageError
from gpulake.core.words import label

if TYPE_CHECKING:
    from gpulake.collect.tracing.adapting import LogImport, Tally

POLL_SECONDS = 0.5
FORMATTED = ("nginx", "envoy")  # adapters with configurable formats


@click.command()
@click.argument("adapter")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--run-dir", required=True, type=click.Path(path_type=Path, file_okay=False), help="The run's folder.")
@click.option("--node-id", "node", default="", help="Node that the log is of. [default: the run's]")
@click.option("--stage", default="", help="Stage of it. [default: the run's]")
@click.option("--module", default="", help="Name of the service. [default: from the log, or the adapter's]")
@click.option("--format", "log_format", default="", help="How lines are written: nginx's log_format, Envoy's format.")
@click.option("--trace-header", "--trace-field", "trace_field", default="", help="Header or field with the trace id.")
@click.option("--tz", "zone", default="UTC", show_default=True, help="Zone of times without one.")
@click.option("--follow", is_flag=True, help="Continue as the log grows and is rotated, until interrupted.")
@json_option
def command(
    adapter: str,
    inputs: tuple[str, ...],
    run_dir: Path,
    node: str,
    stage: str,
    module: str,
    log_format: str,
    trace_field: str,
    zone: str,
    follow: bool,
    as_json: bool,
) -> None:
    """Convert logs of other programs to invocations of a run.

    ADAPTER is nginx, envoy, sacct (the text of `sacct --parsable2`) or otlp (spans as JSON); INPUTS are files, or - for
    standard input. Lines that were read before are not read again. Lines that cannot be read are counted, and kept in
    RUN_DIR/rejected.ADAPTER.jsonl.

    \b
    Example:  gpulake collect adapt nginx /var/log/nginx/access.log --run-dir runs/night1/web1
    """
    from gpulake.collect.adapters import AdapterOptions
    from gpulake.collect.cctf.calendar import zone as zone_of
    from gpulake.collect.tracing.adapting import LogImport
    from gpulake.collect.tracing.invocation import place_of

    place = place_of(run_dir, node=node, stage=stage)
    options = AdapterOptions(
        node=place.node,
        stage=place.stage,
        host_id=place.host_id,
        is_node_given=bool(node),
        format=log_format,
        trace_field=trace_field,
        module=module,
        zone=zone_of(zone),
    )
    log_import = LogImport(adapter, place.run, options)
    if (log_format or trace_field) and adapter not in FORMATTED:
        raise UsageError(f"{adapter} has neither a --format nor a --trace-header", "leave them out")
    tallies = _followed(log_import, inputs) if follow else [_read(log_import, name) for name in inputs]
    if as_json:
        click.echo(json.dumps([asdict(tally) for tally in tallies]))
    else:
        _say(tallies)
    if any(tally.rejected for tally in tallies):
        click.echo(f"What was rejected is kept in {run_dir / f'rejected.{adapter}.jsonl'}", err=True)
    for tally in tallies:
        if tally.rejected and not tally.invocations and not tally.was_read_before:
            raise InputError(
                f"nothing in {tally.file!r} could be read",
                "is it of this adapter?" + (" --format gives the format of its lines" if adapter in FORMATTED else ""),
            )


def _read(log_import: LogImport, name: str) -> Tally:
    return log_import.read_pipe(sys.stdin.fileno()) if name == "-" else log_import.read(Path(name))


def _followed(log_import: LogImport, inputs: tuple[str, ...]) -> list[Tally]:
    if len(inputs) != 1:
        raise UsageError(f"{len(inputs)} files to follow", "follow one, and start the command again for each other")
    if inputs[0] == "-":
        return [_read(log_import, "-")]  # a pipe is followed as it is
    ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    # Blocked while a batch is written, and handled while there is nothing to do.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        return list(log_import.follow(Path(inputs[0]), lambda: signal.sigtimedwait(ends, POLL_SECONDS) is None))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)


def _say(tallies: list[Tally]) -> None:
    for tally in tallies:
        skipped = "; ".join(f"{count:,} {reason}" for reason, count in tally.left_out.items())
        click.echo(
            f"{label(tally.file)}: {tally.invocations:,} invocations, {tally.rejected:,} rejected"
            + (f", skipped: {skipped}" if skipped else "")
            + (" (since it was read before)" if tally.was_read_before else "")
        )
