"""gpulake land: raw files into bronze."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@lake_option
@json_option
def command(paths: tuple[Path, ...], lake: Path | None, as_json: bool) -> None:
    """Land trace files in the lake's bronze tables.

    PATHS are files or folders: CSV with or without a header row, gzip, zstd, tar archives and split parts. The same
    content lands once; a file that changed is a new version; rows that do not parse go to the table quarantine. What to
    print with Slurm's sacct is in docs/slurm.md.

    \b
    Example:  gpulake land data_raw/
    """
    from gpulake.cli._output import print_json, print_table
    from gpulake.cli._progress import progress_bar
    from gpulake.flow import Flow

    with progress_bar(is_quiet=as_json) as report:
        landings, unknown = Flow(settings(lake=lake), report=report).land(paths)
    if as_json:
        print_json({"landings": [asdict(landing) for landing in landings], "unknown": list(unknown)})
        return
    columns = ("table", "rows landed", "quarantined", "version", "", "source")
    print_table(
        columns,
        [
            (
                landing.table,
                landing.rows_landed,
                landing.rows_quarantined,
                landing.version,
                "new" if landing.is_new else "had landed",
                landing.source,
            )
            for landing in landings
        ],
    )
    for source in unknown:
        click.echo(f"not recognised, left alone: {source}", err=True)
    if any(landing.rows_quarantined for landing in landings):
        click.echo("See the rows set aside: gpulake sql 'from quarantine'", err=True)
    click.echo("Next: gpulake build", err=True)
