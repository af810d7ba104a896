"""gpulake advise policies: five policies by the rules of the simulator of the PAI trace."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow

# As gpulake.replay.alibaba_simulator has them; importing it here would slow --help.
POLICIES = ("SJF", "SJU", "SJG", "SJGG", "FIFO")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--cluster", help="Without FILE: the tasks of this cluster. [default: the only one]")
@click.option("--policy", "chosen", multiple=True, type=click.Choice(POLICIES), help="May be repeated. [default: all]")
@click.option("--gpus", type=click.IntRange(min=1), help="Of the cluster. [default: 6500 for FILE, else its own]")
@click.option("--jobs", type=click.IntRange(min=1), help="At random, by seed 42. [default: 20000 of FILE, else all]")
@click.option("--rate", type=int, help="Jobs a minute; -1: recorded times. [default: 1000 for FILE, else -1]")
@flow_options
def command(
    file: Path | None,
    cluster: str | None,
    chosen: tuple[str, ...],
    gpus: int | None,
    jobs: int | None,
    rate: int | None,
    flow: Flow,
    as_json: bool,
) -> None:
    """Compare five policies by the rules of the simulator that Alibaba published with the PAI trace.

    FILE is a CSV of that simulator; without it, the tasks of the lake are simulated. SJF knows run times; SJU, SJG and
    SJGG sort by the file's estimates (user; group; group and GPUs), or by what had ended before in the lake. One big
    node: placement, failures and preemption are not simulated.

    \b
    Example:
      gpulake advise policies pai_job_duration_estimate_100K.csv
      gpulake advise policies --cluster pai --gpus 3000 --policy FIFO --policy SJGG
    """
    from gpulake.flow.advising import compared_policies, simulator_jobs
    from gpulake.replay.alibaba_simulator import GPUS, JOBS, JOBS_A_MINUTE, chosen_jobs, read_jobs

    if file is not None:
        found, capacity = read_jobs(file, jobs or JOBS), GPUS
        kept = chosen_jobs(found, jobs or JOBS, JOBS_A_MINUTE if rate is None else rate)
    else:
        found, capacity = simulator_jobs(flow, cluster)
        kept = chosen_jobs(found, jobs or len(found) + 1, -1 if rate is None else rate)
    outcomes = compared_policies(kept, chosen or POLICIES, gpus or capacity)
    if as_json:
        print_json({"jobs": len(kept), "gpus": gpus or capacity, "outcomes": list(map(asdict, outcomes))})
        return
    click.secho(f"{len(kept):,} jobs on {gpus or capacity:,} GPUs, seconds", bold=True)
    print_table(
        ("policy", "mean completion", "mean wait", "makespan", "jobs done"),
        [
            (
                each.policy,
                f"{each.mean_completion_seconds:.2f}",
                f"{each.mean_wait_seconds:.2f}",
                each.makespan_seconds,
                each.jobs_done,
            )
            for each in sorted(outcomes, key=lambda each: each.mean_completion_seconds)
        ],
    )
