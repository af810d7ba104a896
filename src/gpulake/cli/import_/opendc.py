"""gpulake import opendc: tasks.parquet and fragments.parquet into bronze."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FOLDER
from gpulake.cli._output import print_json, print_table
from gpulake.cli._progress import progress_bar
from gpulake.flow import Flow


@click.command()
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
@click.option("--name", help="What the workload is called in the lake. [default: the name of its folder]")
@flow_options
def command(folders: tuple[Path, ...], name: str | None, flow: Flow, as_json: bool) -> None:
    """Import OpenDC workloads: folders with tasks.parquet and fragments.parquet, of any version of the format.

    What was imported can be exported again as it was, and queried: tables bronze_opendc_tasks and
    bronze_opendc_fragments. The same content lands once; rows that do not parse go to the table quarantine.

    \b
    Example:  gpulake import opendc traces/bitbrains-small
    """
    from gpulake.flow.workloads import import_opendc

    with progress_bar(is_silent=as_json) as flow.report:
        landed = import_opendc(flow, folders, name)
    if as_json:
        print_json({workload: [asdict(landing) for landing in landings] for workload, landings in landed.items()})
        return
    rows = [
        (
            workload,
            landing.table,
            landing.rows_landed,
            landing.rows_quarantined,
            "new" if landing.is_new else "had landed",
        )
        for workload, landings in landed.items()
        for landing in landings
    ]
    print_table(("workload", "table", "rows landed", "quarantined", ""), rows)
    click.echo(f"Next: gpulake export opendc --cluster {shlex.quote(next(iter(landed)))} --out DIR", err=True)
