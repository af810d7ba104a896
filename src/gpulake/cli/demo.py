"""gpulake demo: from nothing to a lake, a finding and plots."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import ANY_PATH, json_option, settings
from gpulake.cli._output import print_findings, print_json
from gpulake.cli._progress import progress_bar
from gpulake.flow import Flow


@click.command()
@click.option("--out", type=ANY_PATH, default=Path("demo"), show_default=True, help="The folder for all of it.")
@click.option("--jobs", type=int, default=20_000, show_default=True, help="Jobs of the generated trace.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same trace.")
@json_option
def command(out: Path, jobs: int, seed: int, as_json: bool) -> None:
    """Generate a cluster trace, build a lake from it, and say what is in it. Needs no data and no network.

    \b
    Example:  gpulake demo --out demo
    """
    config = settings(lake=out / "lake")
    page = out / "report.html"
    with progress_bar(is_quiet=as_json) as report:
        result = Flow(config, report=report).demo(out / "trace", page, jobs, seed)
    if as_json:
        print_json({**asdict(result), "lake": str(config.lake)})
        return
    click.secho("A generated cluster (synth), not a real one.", dim=True)
    print_findings(result.build.findings)
    rows = sum(landing.rows_landed for landing in result.landings)
    click.echo(f"\nLake    {config.lake}  ({rows:,} rows landed, {len(result.build.tests)} data tests)")
    click.echo(f"Report  {page}")
    click.secho("\nWhat next", bold=True)
    # As it was typed: in a fresh checkout the command is not on the path.
    program = "gpulake" if shutil.which("gpulake") else sys.argv[0]
    click.echo(f"  {program} serve --lake {config.lake}   the dashboard, in your browser")
    click.echo(f"  {program} detect list --lake {config.lake}")
    click.echo(f"  {program} tables --lake {config.lake}")
    click.echo(f"  {program} sql --lake {config.lake} 'from gold_cluster_util_daily limit 5'")
    click.echo(f"  {program} refresh YOUR_FILES...   the same with your own data")
