"""gpulake pull slurm: accounting, nodes, outages and the queue of a Slurm cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli._options import FOLDER
from gpulake.cli._times import Span
from gpulake.cli.pull._pulling import pull_options
from gpulake.pull import Source


@click.command()
@click.option("--cluster", default="", metavar="NAME", help="The cluster. [default: the one that scontrol names]")
@click.option("--bin", "bin_folder", type=FOLDER, help="Where sacct, scontrol and sacctmgr are. [default: on PATH]")
@click.option("--from", "saved", type=FOLDER, help="Read saved output of these programs instead of running them.")
@click.option("--time-zone", default="", metavar="ZONE", help="Of saved output. [default: that of the cluster]")
@click.option(
    "--overlap", type=Span(), default="1h", show_default=True, metavar="SPAN", help="Before the last pull, asked again."
)
@click.option("--timeout", type=Span(), default="10m", show_default=True, metavar="SPAN", help="For one program.")
@pull_options
def command(
    cluster: str,
    bin_folder: Path | None,
    saved: Path | None,
    time_zone: str,
    overlap: timedelta,
    timeout: timedelta,
) -> Source:
    """Pull accounting, nodes, outages and waiting jobs from Slurm.

    Runs sacct, scontrol and, where there is a database, sacctmgr; nothing is written to Slurm. Jobs that had not ended
    are asked for again, whenever they began: what Slurm writes late is not lost.

    \b
    Example:  gpulake pull slurm --since 30d --refresh
    By cron:  */5 * * * * gpulake pull slurm --refresh --quiet
    Saved:    gpulake pull slurm --from /srv/slurm-output --cluster tiger
    """
    from gpulake.pull.slurm import SlurmPull

    return SlurmPull(cluster, bin_folder, saved, time_zone, overlap, timeout.total_seconds())
