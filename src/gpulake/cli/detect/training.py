"""gpulake detect training: what went wrong in a training run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import ANY_PATH, FILE
from gpulake.cli._output import print_json, print_table
from gpulake.cli._times import Moment
from gpulake.core.errors import UsageError
from gpulake.core.words import count, label, span
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.core.training import TrainingReport


@click.command()
@click.argument("telemetry", type=ANY_PATH, required=False)
@click.option("--job", "job_id", metavar="ID", help="Instead of TELEMETRY: what the lake has of the nodes of this job.")
@click.option("--cluster", "cluster_id", help="Of the job, where several have one of its id.")
@click.option(
    "--steps",
    type=ANY_PATH,
    metavar="FILE",
    help="When steps ended and how long they took: JSON lines, CSV, or the log of the run.",
)
@click.option(
    "--plot",
    type=FILE,
    metavar="FILE.html",
    help="Write the series with the phases shaded as an HTML page that works offline.",
)
@click.option("--since", type=Moment(), metavar="TIME", help="Only from then on; UTC where no zone is given.")
@click.option("--until", type=Moment(), metavar="TIME", help="Only up to then; UTC where no zone is given.")
@click.option("--time-zone", default="UTC", show_default=True, help="Of times in the files that name none.")
@flow_options
def command(
    telemetry: Path | None,
    job_id: str | None,
    cluster_id: str | None,
    steps: Path | None,
    plot: Path | None,
    since: datetime | None,
    until: datetime | None,
    time_zone: str,
    flow: Flow,
    as_json: bool,
) -> None:
    """Say what went wrong in a training run: leaks, full memory, a starved GPU; with step times also stalls, CPU
    pressure, a stopped process, a neighbour on the GPU, small batches.

    TELEMETRY is a file or a folder: JSON lines, a log of nvidia-smi, pages of dcgm-exporter, or a collected run.
    Without it, --job takes what the lake has.

    \b
    Example:  gpulake detect training runs/night1/node7 --steps train.log --plot run.html
    """
    from gpulake.flow.training import JobOfLake, look_at_training
    from gpulake.show.training_page import write_training

    if telemetry is not None and job_id is None and cluster_id is None:
        given: Path | JobOfLake = telemetry
    elif telemetry is None and job_id is not None:
        given = JobOfLake(flow.lake, job_id, cluster_id)
    else:
        raise UsageError("telemetry is needed once", "give a file or a folder, or --job for what the lake has of a job")
    found = look_at_training(given, steps, since, until, time_zone)
    if plot:
        write_training(found, plot)
    for note in found.notes:
        click.echo(label(note), err=True)
    if as_json:
        print_json(_document(found))
        return
    _print(found)
    if plot:
        click.echo(plot)


def _document(found: TrainingReport) -> list[dict[str, object]]:
    return [
        {
            "node": gpu.node,
            "gpu": gpu.gpu,
            "kind": phase.kind,
            "began_at": phase.began_at.isoformat(),
            "ended_at": phase.ended_at.isoformat(),
            "seconds": phase.seconds,
            "detail": phase.detail,
            "remedy": phase.remedy,
        }
        for gpu, phase in found.phases
    ]


def _print(found: TrainingReport) -> None:
    seen = f"{span(found.seconds)} of {count(len(found.gpus), 'GPU')}"
    if not found.phases:
        click.echo(f"nothing unusual in {seen}")
        return
    click.secho(f"{count(len(found.phases), 'phase')} in {seen}", bold=True)
    is_one_day = len({phase.began_at.date() for _, phase in found.phases}) == 1
    rows = [
        (
            phase.kind,
            f"{phase.began_at:%Y-%m-%d %H:%M:%S}",
            f"{phase.ended_at:%H:%M:%S}" if is_one_day else f"{phase.ended_at:%Y-%m-%d %H:%M:%S}",
            span(phase.seconds),
            *((label(gpu.name, 60),) if len(found.gpus) > 1 else ()),
            phase.detail,
            phase.remedy,
        )
        for gpu, phase in found.phases
    ]
    named = ("GPU",) if len(found.gpus) > 1 else ()
    print_table(("phase", "from (UTC)", "to", "lasted", *named, "what was seen", "what to do"), rows)
