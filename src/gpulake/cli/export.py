"""gpulake export: workloads for simulators, dashboards for Grafana."""

from __future__ import annotations

import shlex
from datetime import date
from pathlib import Path
from typing import Any

import click

from gpulake.cli._flow import flow_option, flow_options
from gpulake.cli._options import FILE, FOLDER, json_option
from gpulake.cli._output import print_json
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Span
from gpulake.cli._verbs import Group
from gpulake.core.errors import UsageError
from gpulake.core.words import label
from gpulake.flow import Flow

DIALECTS = {"both": ("sdk", "legacy"), "sdk": ("sdk",), "legacy": ("legacy",)}


@click.group(cls=Group)
def command() -> None:
    """Write what other tools take: a workload for a simulator, dashboards for Grafana."""


@command.command("grafana")
@click.option("--out", required=True, type=FOLDER, help="The folder for them.")
def grafana(out: Path) -> None:
    """Write dashboards for Grafana: of the lake's metrics, and of the collectors'.

    Both read from a Prometheus that scrapes /metrics of `gpulake serve`, or the collectors' pages. Import them in
    Grafana under Dashboards, New, Import; or let it find them in a folder of its provisioning.

    \b
    Example:  gpulake export grafana --out dashboards
    """
    from gpulake.show.grafana import write_dashboards

    for path in write_dashboards(out):
        click.echo(path)


@command.command("alibaba")
@click.option("--out", required=True, type=FILE, help="The CSV.")
@click.option("--cluster", help="This cluster. [default: the only one]")
@flow_option
def alibaba(out: Path, cluster: str | None, flow: Flow) -> None:
    """Write the tasks of a cluster as the CSV that the simulator of the PAI trace reads.

    One row per task of which the run time is known. The estimates of run times (user_dur, user_gpu_dur, group_dur,
    group_gpu_dur) use only tasks that had ended when a task was submitted; 0 where none had.

    \b
    Example:  gpulake export alibaba --cluster pai --out jobs.csv
    """
    from gpulake.flow.advising import export_simulator_jobs

    click.echo(f"{export_simulator_jobs(flow, cluster, out):,} tasks in {out}")


@command.command("swf")
@click.option(
    "--out", required=True, type=FILE, help="The file; the name before its suffix is the cluster's, if landed."
)
@click.option("--cluster", help="This cluster. [default: the only one]")
@click.option(
    "--processors", type=click.Choice(["gpus", "cores"]), default="gpus", show_default=True, help="Are these."
)
@flow_options
def swf(out: Path, cluster: str | None, processors: str, flow: Flow, as_json: bool) -> None:
    """Write the jobs of a cluster in the Standard Workload Format, which `gpulake land` reads, too.

    The format knows processors: a GPU is one, and a part of a GPU is rounded up; the header has `; Processors: GPUs`.
    Jobs without GPUs are left out, unless processors are cores. What is unknown is -1.

    \b
    Example:  gpulake export swf --cluster tiger --out tiger.swf
    """
    from gpulake.flow.advising import export_swf

    summary = export_swf(flow, cluster, {"gpus": "GPUs", "cores": "CPUs"}[processors], out)
    if as_json:
        print_json({"out": str(out), **summary})
        return
    click.echo(f"{summary['jobs']:,} jobs in {out}")
    for reason, count in {**summary["left_out"], "rounded up": summary["rounded"]}.items():
        if count:
            click.echo(f"  {count:>12,}  {reason}", err=True)


@command.command("opendc")
@click.option("--out", required=True, type=FOLDER, help="A new folder.")
@click.option("--run", "run", type=FOLDER, help="Of a collected run, or a merged one.")
@flow_option
@click.option("--cluster", help="Of the lake's jobs: this cluster, or a workload that was imported.")
@click.option("--from", "first", metavar="DAY", help="Jobs submitted on this day, on the cluster's clock, or later.")
@click.option("--to", "last", metavar="DAY", help="Jobs submitted on this day or before.")
@click.option("--user", help="Jobs of this user.")
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default="both", show_default=True, help="Of the JSON.")
@click.option("--policy", help="A built-in scheduler of OpenDC. [default: filters by name, with one for GPUs]")
@click.option("--checkpoint", type=Span(), metavar="SPAN", help="Also simulate with a checkpoint so often.")
@click.option("--checkpoint-cost", type=Span(), metavar="SPAN", default="60s", show_default=True, help="Of one.")
@click.option("--cpu-mhz", type=click.FloatRange(min=1), default=2400.0, show_default=True, help="Of an unknown core.")
@click.option(
    "--gpu-mhz", type=click.FloatRange(min=1), default=1000.0, show_default=True, help="What a GPU stands for."
)
@click.option(
    "--gpu-cores", type=click.IntRange(1, 1000), default=1, show_default=True, help="Parts that a GPU can be shared in."
)
@click.option(
    "--schema-version", type=click.Choice(["2", "3"]), default="3", show_default=True, help="Of tasks.parquet."
)
@click.option("--compat-int64-times", "has_plain_times", is_flag=True, help="Times as plain INT64, not as timestamps.")
@json_option
def opendc(out: Path, run: Path | None, flow: Flow, as_json: bool, **options: Any) -> None:
    """Write tasks, fragments, failures, topologies and experiments that OpenDC runs as they are.

    From a collected run (--run), or from the jobs of the lake (--cluster). export.json says what was left out, inferred
    and guessed. Nothing is written unless every task has fragments that cover it and stay within its capacity. A
    workload that was imported goes out as it came in.

    \b
    Example:
      gpulake export opendc --cluster pai --from 1970-02-01 --to 1970-02-07 --out pai-week
      gpulake export opendc --run runs/night1 --out night1
    """
    from gpulake.flow.workloads import export_lake, export_run
    from gpulake.replay.exports.opendc import OpendcExport
    from gpulake.replay.exports.opendc_experiment import Checkpoints
    from gpulake.replay.workload import Clockwork

    if run is not None and any(options[name] is not None for name in ("cluster", "first", "last", "user")):
        raise UsageError("--run was given with what chooses jobs of the lake", "give --run, or --cluster and the rest")
    interval, cost = options["checkpoint"], options["checkpoint_cost"]
    export = OpendcExport(
        checkpoints=interval and Checkpoints(interval.total_seconds(), cost.total_seconds()),
        dialects=DIALECTS[options["dialect"]],
        schema_version=int(options["schema_version"]),
        policy=options["policy"],
        has_plain_times=options["has_plain_times"],
    )
    clock = Clockwork(options["cpu_mhz"], options["gpu_mhz"], options["gpu_cores"])
    with progress_bar(is_silent=as_json) as flow.report:
        if run is not None:
            exported = export_run(flow, run, export, clock, out)
        else:
            days = (_day(options["first"]), _day(options["last"]))
            exported = export_lake(flow, options["cluster"], options["user"], days, export, clock, out)
    if as_json:
        print_json({"out": str(exported.folder), **exported.summary})
    else:
        _print(exported.folder, exported.summary, export.dialects[0])


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no day", "write it like 2026-01-31") from error


def _print(folder: Path, summary: dict[str, Any], dialect: str) -> None:
    click.echo(f"{summary['tasks']:,} tasks and {summary['fragments']:,} fragments in {folder}")
    # The counts are the result; the assumptions behind them go to stderr.
    if hours := summary.get("gpu_hours"):
        share = summary["assumed_gpu_hours"] / hours
        click.echo(f"  assumed  {share:>12.1%}  of {hours:,.1f} GPU-hours: what was used was not measured", err=True)
    for title in ("left_out", "split", "inferred", "guessed", "remarks"):
        for reason, count in summary[title].items():
            click.echo(f"  {title.replace('_', ' '):<9}{count:>12,}  {label(reason)}", err=True)
    flag = "--strict" if dialect == "sdk" else "--legacy"
    click.echo(f"Next: cd {shlex.quote(str(folder))} && opendc {flag} run {dialect}/experiment.json", err=True)
