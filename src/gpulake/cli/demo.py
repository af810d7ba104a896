"""gpulake demo: from nothing to a lake, findings, diagnoses and plots."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from gpulake.cli._options import ANY_PATH, json_option, settings
from gpulake.cli._output import print_findings, print_json
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Moment
from gpulake.flow import Flow
from gpulake.flow.order import RefreshResult

NODES = 10
INTERVAL_SECONDS = 1200
SNAPSHOT_HOURS = 24  # beside those at every change of a node; a file costs a twentieth of a second


@click.command()
@click.option("--out", type=ANY_PATH, default=Path("demo"), show_default=True, help="The folder for all of it.")
@click.option(
    "--trace",
    type=click.Choice(["site", "pai"]),
    default="site",
    show_default=True,
    help="A Slurm site of the last two weeks, or a trace of the shape of Alibaba PAI v2020.",
)
@click.option("--until", type=Moment(), metavar="TIME", help="With site: the end of its time; an hour ago by default.")
@click.option("--jobs", type=int, default=20_000, show_default=True, help="With pai: jobs of the trace.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed and time give the same data.")
@json_option
def command(out: Path, trace: str, until: datetime | None, jobs: int, seed: int, as_json: bool) -> None:
    """Generate a cluster's last two weeks, build a lake from them, and say what is in it. Needs no data and no network.

    A site of 10 nodes with 8 GPUs: Slurm accounting, GPU telemetry, node events and logs of failed jobs, with incidents
    that the findings should name; OUT/site/truth.json says which.

    \b
    Example:  gpulake demo --out demo
    """
    config = settings(lake=out / "lake")
    page = out / "report.html"
    with progress_bar(is_silent=as_json) as report:
        flow = Flow(config, report=report)
        result, reasons = (
            _site(flow, out, page, until, seed) if trace == "site" else (_trace(flow, out, page, jobs, seed), {})
        )
    if as_json:
        print_json({**asdict(result), "reasons": reasons, "lake": str(config.lake)})
        return
    name = "site (synth-site)" if trace == "site" else "cluster (synth)"
    click.secho(f"A generated {name}, not a real one.", dim=True)
    print_findings(result.build.findings)
    if reasons:
        click.secho("\nWhy jobs failed", bold=True)
        click.echo("  " + ", ".join(f"{reason} ({count})" for reason, count in reasons.items()))
    rows = sum(landing.rows_landed for landing in result.landings)
    click.echo(f"\nLake    {config.lake}  ({rows:,} rows landed, {len(result.build.tests)} data tests)")
    click.echo(f"Report  {page}")
    _what_next(config.lake)


def _site(flow: Flow, out: Path, page: Path, until: datetime | None, seed: int) -> tuple[RefreshResult, dict[str, int]]:
    from gpulake.flow.demo import demo_site
    from gpulake.synth.site import Site, until_default

    site = Site(
        until or until_default(flow.clock.now()),
        nodes=NODES,
        seed=seed,
        interval_seconds=INTERVAL_SECONDS,
        snapshot_hours=SNAPSHOT_HOURS,
    )
    done = demo_site(flow, out / "site", page, site)
    return done.refreshed, done.reasons


def _trace(flow: Flow, out: Path, page: Path, jobs: int, seed: int) -> RefreshResult:
    from gpulake.flow.demo import demo_trace

    return demo_trace(flow, out / "trace", page, jobs, seed)


def _what_next(lake: Path) -> None:
    click.secho("\nWhat next", bold=True)
    # As it was typed: in a fresh checkout the command is not on the path.
    program = "gpulake" if shutil.which("gpulake") else sys.argv[0]
    click.echo(f"  {program} serve --lake {lake}   the dashboard, in your browser")
    click.echo(f"  {program} detect list --lake {lake}")
    click.echo(f"  {program} report efficiency --lake {lake}")
    click.echo(f"  {program} tables --lake {lake}")
    click.echo(f"  {program} sql --lake {lake} 'from gold_cluster_util_daily limit 5'")
    click.echo(f"  {program} refresh YOUR_FILES...   the same with your own data")
