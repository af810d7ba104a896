"""gpulake detect: what was found, why, and what is watched."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import ANY_PATH, FILE
from gpulake.cli._output import print_json, print_screen, print_table
from gpulake.cli._screen import screen, wrapped
from gpulake.cli._times import Moment
from gpulake.cli._verbs import Group
from gpulake.core.errors import UsageError
from gpulake.core.kinds import SEVERITIES
from gpulake.core.words import count, label, span
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.core.training import TrainingReport

LEAST_COLUMNS = 120  # narrower terminals get a list instead of a table
MOST_ROWS = 4  # of a headline in that list


@click.group(cls=Group)
def command() -> None:
    """Look at what was detected: what was expected, what was seen, and which jobs ran then."""


@command.command("list")
@click.option("--kind", help="Only findings of this kind.")
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only those.")
@click.option("--watch", help="Only what this watch found; see: gpulake detect watches.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only what was seen since; UTC where no zone is given.")
@flow_options
def list_findings(
    kind: str | None, severity: str | None, watch: str | None, since: datetime | None, flow: Flow, as_json: bool
) -> None:
    """List the findings of the current build that have a time, the most severe first, of those the newest.

    \b
    Example:  gpulake detect list --severity critical --since 2026-01-31
    """
    from gpulake.detect.listing import read_findings

    found = read_findings(flow.lake.open(), kind, severity, watch, since)
    if as_json:
        print_json([{**one.row, "finding_id": one.finding_id, "severity": one.severity} for one in found])
        return
    if not found:
        wanted = " like that" if kind or severity or watch or since else ""
        click.echo(f"nothing{wanted} was found that has a time; what is watched: gpulake detect watches", err=True)
        return
    rows = [
        (
            one.finding_id,
            f"{one.at:%Y-%m-%d %H:%M}" if one.row.get("began_at") else f"{one.at:%Y-%m-%d}",
            one.severity,
            label(one.row["kind"], 40),
            label(one.row.get("watch") or "", 40),
            label(one.row["headline"], 160),
        )
        for one in found
    ]
    columns = screen().columns
    if columns < LEAST_COLUMNS:
        for name, began, severe, what, _, headline in rows:
            click.echo("\n  ".join([f"{name}  {began}  {severe}", what, *wrapped(headline, columns - 2, MOST_ROWS)]))
        return
    print_table(("finding", "began (UTC)", "severity", "kind", "watch", "what was found"), rows)


@command.command("explain")
@click.argument("given", metavar="ID")
@click.option(
    "--plot",
    type=FILE,
    metavar="FILE.html",
    help="Write the series, the band and the jobs as an HTML page that works offline.",
)
@flow_options
def explain_finding(given: str, plot: Path | None, flow: Flow, as_json: bool) -> None:
    """Show why something was found: the series around it, what was expected, and the jobs that ran then.

    ID is that of a finding or of an incident; an unambiguous prefix is enough.

    \b
    Example:  gpulake detect explain f-3f2a --plot why.html
    """
    from gpulake.detect.listing import explain
    from gpulake.show.explain_page import write_explanation
    from gpulake.show.explain_text import explanation_text, jobs_text

    found = explain(flow.lake.open(), given)
    if plot:
        write_explanation(found, plot)
    if as_json:
        print_json(asdict(found))
    else:
        columns = screen().columns
        print_screen(f"{explanation_text(found, columns)}\n{jobs_text(found.ran, columns)}")
        if plot:
            click.echo(plot)
    if found.evidence is None:
        raise UsageError(f"{found.explained_id} has no series to show", found.rests_on)


@command.command("watches")
@flow_options
def watches(flow: Flow, as_json: bool) -> None:
    """List the watches: what each reads, by which detector, how much history it needs, and whether there is data.

    \b
    Example:  gpulake detect watches
    """
    from gpulake.detect.listing import read_watches

    found = read_watches(flow.lake.open())
    if as_json:
        print_json([{**asdict(one), "has_data": not one.empty} for one in found])
        return
    rows = [
        (
            one.name,
            ", ".join(one.tables),
            one.detector,
            one.least_points,
            "yes" if not one.empty else f"no rows in {', '.join(one.empty)}",
            one.findings,
            one.about,
        )
        for one in found
    ]
    print_table(("watch", "reads", "detector", "least points", "has data", "found", "what it sees"), rows)


@command.command("training")
@click.argument("telemetry", type=ANY_PATH, required=False)
@click.option("--job", "job_id", metavar="ID", help="Instead of TELEMETRY: what the lake has of the nodes of this job.")
@click.option(
    "--run", "run", metavar="RUN|JOB", help="Instead of --steps: a training run in the lake, by its name or its job."
)
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
def training(
    telemetry: Path | None,
    job_id: str | None,
    run: str | None,
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
    Without it, --job takes what the lake has. With --run the steps are those that landed (docs/training.md), and the
    telemetry that of the run's job; what the run's time went to is printed, too.

    \b
    Example:  gpulake detect training runs/night1/node7 --steps train.log --plot run.html
              gpulake detect training --run night1
    """
    from gpulake.flow.training import JobOfLake, RunOfLake, look_at_training
    from gpulake.show.training_page import write_training

    if run is not None and steps is not None:
        raise UsageError("--run and --steps exclude each other", "give the steps once")
    if telemetry is not None and job_id is None and (cluster_id is None or run is not None):
        given: Path | JobOfLake | None = telemetry
    elif telemetry is None and job_id is None and run is not None:
        given = None
    elif telemetry is None and job_id is not None:
        given = JobOfLake(flow.lake, job_id, cluster_id)
    else:
        raise UsageError("telemetry is needed once", "give a file or a folder, or --job for what the lake has of a job")
    taken = RunOfLake(flow.lake, run, cluster_id) if run is not None else steps
    found = look_at_training(given, taken, since, until, time_zone)
    if plot:
        write_training(found, plot)
    for note in found.notes:
        click.echo(label(note), err=True)
    if as_json:
        phases = _training_document(found)
        print_json({"phases": phases, "parts": [asdict(part) for part in found.parts]} if run is not None else phases)
        return
    _print_training(found)
    if plot:
        click.echo(plot)


def _training_document(found: TrainingReport) -> list[dict[str, object]]:
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


def _print_training(found: TrainingReport) -> None:
    seen = f"{span(found.seconds)} of {count(len(found.gpus), 'GPU')}"
    if not found.phases:
        click.echo(f"nothing unusual in {seen}" if found.gpus else f"{count(len(found.steps), 'step')} of a run")
        _print_parts(found)
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
    _print_parts(found)


def _print_parts(found: TrainingReport) -> None:
    """What the time of a run of the lake went to."""
    if not found.parts:
        return
    rows = [
        (one.part, span(one.seconds), f"{one.time_ratio:.1%}", "" if one.gpu_hours is None else f"{one.gpu_hours:,.1f}")
        for one in found.parts
    ]
    click.echo()
    print_table(("part", "time", "share", "GPU-hours"), rows)
