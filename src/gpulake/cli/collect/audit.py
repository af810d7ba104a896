"""gpulake collect audit: the quality of the files of a run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpulake.cli._options import json_option


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def command(folder: Path, as_json: bool) -> None:
    """Report the quality of the files of a run.

    FOLDER is a run directory, or the folder with its files: cctf, CTS or a merged run, by any collector. Counts rows,
    missing values, rows out of order, pids that were not sampled, gaps and drops. Writes nothing.

    \b
    Example:  gpulake collect audit runs/night1/node7
    """
    from gpulake.collect.cctf.audit import audit
    from gpulake.collect.cctf.reports import audit_report

    found = audit(folder)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(audit_report(found), nl=False)
