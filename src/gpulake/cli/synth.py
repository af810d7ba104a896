"""gpulake synth: write a synthetic PAI v2020 trace or site, or compare a trace with the published figures."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import ANY_PATH, json_option
from gpulake.cli._output import print_json
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Moment, Span
from gpulake.cli._verbs import Group
from gpulake.core.errors import UsageError


@click.group(cls=Group, invoke_without_command=True)
@click.option("--out", type=ANY_PATH, help="The folder to write the trace to.")
@click.option("--jobs", type=int, default=20_000, show_default=True, help="Jobs, from 1,000 to 1,055,501 (all).")
@click.option("--seed", type=int, default=0, show_default=True, help="The same jobs and seed give the same bytes.")
@click.option("--tar", "is_tar", is_flag=True, help="Write <table>.tar.gz archives, as published, instead of CSV.")
@click.option("--no-incidents", is_flag=True, help="Inject nothing; truth.json is an empty list.")
@click.option(
    "--incident-strength",
    type=float,
    default=1.0,
    show_default=True,
    help="How much incidents add to what is usual, of all that they add at 1.",
)
@click.option("--telemetry", "has_telemetry", is_flag=True, help="Also half a day of telemetry of a few nodes.")
@click.option("--check", type=ANY_PATH, help="Compare the trace in this folder with the figures.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    out: Path | None,
    jobs: int,
    seed: int,
    is_tar: bool,
    no_incidents: bool,
    incident_strength: float,
    has_telemetry: bool,
    check: Path | None,
    as_json: bool,
) -> None:
    """Write a synthetic trace in the format of the Alibaba PAI trace v2020.

    Seven tables without header rows and their .header files, a table of GPU models, and truth.json, which lists the
    injected incidents with their times and places. Every id begins with synth-: wherever such rows land, their cluster
    is synth.

    \b
    Example:  gpulake synth --out data_raw
    All of it: gpulake synth --out data_raw --jobs 1055501
    Faint:     gpulake synth --out data_raw --incident-strength 0.5
    How close: gpulake synth --check data_raw
    A site:    gpulake synth site OUT
    """
    if context.invoked_subcommand is not None:
        return
    if check is not None:
        _compare(check, as_json)
    elif out is not None:
        options = {"is_tar": is_tar, "has_incidents": not no_incidents, "has_telemetry": has_telemetry}
        _write(out, jobs, seed, options, incident_strength, as_json)
    else:
        raise UsageError("neither --out nor --check was given", "try: gpulake synth --out data_raw")


def _write(out: Path, jobs: int, seed: int, options: dict[str, bool], incident_strength: float, as_json: bool) -> None:
    from gpulake.synth import write_trace

    with progress_bar(is_silent=as_json) as report:
        made = write_trace(out, jobs=jobs, seed=seed, incident_strength=incident_strength, report=report, **options)
    if as_json:
        print_json(
            {
                "out": str(out),
                "is_generated": True,
                "jobs": made.jobs,
                "seed": made.seed,
                "rows": made.rows,
                "files": [path.name for path in made.files],
                "incidents": [incident.as_record() for incident in made.incidents],
            }
        )
        return
    click.echo("generated: every id begins with synth-, and the cluster is synth, not pai")
    for table, rows in made.rows.items():
        click.echo(f"{table:<22}{rows:>12,} rows")
    for incident in made.incidents:
        record = incident.as_record()
        click.echo(f"{incident.kind:<22}{record['first_local']} to {record['last_local']}")


def _compare(directory: Path, as_json: bool) -> None:
    from gpulake.synth.calibration import measure

    checks = measure(directory)
    if as_json:
        print_json([asdict(check) for check in checks])
        return
    # Agreement is no evidence of the figures, since the generator is made from them.
    click.echo("The generator draws from these figures: agreement tests the plumbing, not the world.", err=True)
    click.echo(f"{'figure':<44}{'published':>12}{'ours':>12}{'distance':>10}{'bound':>8}")
    for check in checks:
        mark = "" if check.passed else "  off"
        published, ours = f"{check.published:.4g}", f"{check.measured:.4g}"
        click.echo(f"{check.name:<44}{published:>12}{ours:>12}{check.distance:>10.3f}{check.bound:>8.2f}{mark}")


@command.command()
@click.argument("out", type=ANY_PATH)
@click.option("--nodes", type=int, default=64, show_default=True, help="Nodes.")
@click.option("--gpus", type=int, default=8, show_default=True, help="GPUs of each node.")
@click.option("--days", type=int, default=14, show_default=True, help="Days.")
@click.option("--until", type=Moment(), metavar="TIME", help="The end; an hour ago by default.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same options give the same bytes.")
@click.option("--interval", type=Span(), default="60s", show_default=True, help="Time between samples of a GPU.")
@click.option("--gpu-model", default="h100", show_default=True, help="h100, h200 or a100.")
@click.option(
    "--tell", type=click.Choice(["slurm", "kubernetes"]), default="slurm", help="Who tells of jobs and nodes."
)
@json_option
def site(
    out: Path,
    nodes: int,
    gpus: int,
    days: int,
    until: datetime | None,
    seed: int,
    interval: timedelta,
    gpu_model: str,
    tell: str,
    as_json: bool,
) -> None:
    """Write two weeks of a generated site: one story, told by all that a site has.

    \b
    slurm/       sacct, sacctmgr show event, and scontrol show node every hour and at every change
    kubernetes/  instead of it, lists of pods, nodes, jobs and events, with --tell kubernetes
    prometheus/  samples of dcgm-exporter and node_exporter, OpenMetrics text, a file a day
    kernel/      dmesg of nodes on which something happened
    logs/        output of failed jobs
    truth.json   GPU-hours by bucket, user and account, unused share of each job, outages, injected incidents

    The cluster is called synth-site.

    \b
    Example:  gpulake synth site site --nodes 16 --interval 5m
    """
    from gpulake.core.clock import SystemClock
    from gpulake.synth.site import Site, until_default, write_site

    seconds = int(interval.total_seconds())
    wanted = Site(until or until_default(SystemClock().now()), nodes, gpus, days, seed, seconds, gpu_model)
    with progress_bar(is_silent=as_json) as report:
        made = write_site(out, wanted, report, tell)
    incidents = [incident.as_record(wanted) for incident in made.incidents]
    if as_json:
        counts = {"jobs": made.jobs, "samples": made.samples, "logs": made.logs}
        print_json({"out": str(out), "is_generated": True, **counts, "incidents": incidents})
        return
    click.echo("generated: the cluster is synth-site")
    click.echo(f"{made.jobs:,} jobs, {made.samples:,} samples, {made.logs:,} logs of failed jobs")
    for incident in incidents:
        click.echo(f"{incident['kind']:<15}{incident['first']} to {incident['last']}  {_subjects(incident)}")


def _subjects(incident: dict[str, Any]) -> str:
    return ", ".join([*incident["nodes"], *incident["users"]])
