"""gpulake collect merge: many nodes' files into one run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpulake.cli._options import json_option


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where to put the run.")
@click.option(
    "--apply-skew", is_flag=True, help="Correct the clocks by the offsets estimated from traces across nodes."
)
@json_option
def command(folders: tuple[Path, ...], out: Path, apply_skew: bool, as_json: bool) -> None:
    """Merge the files of many nodes into one run, in the order of time.

    FOLDERS are parsed run directories, their folders cctf or CTS, or folders that contain them. Duplicates count once;
    rows in conflict are counted and listed; two hosts with one node name get two names; clock skew is estimated from
    traces across nodes. See merge_report.md.

    \b
    Example:  gpulake collect merge runs/night1 --out runs/night1-merged
    """
    from gpulake.collect.cctf.merge import merge
    from gpulake.core.words import label

    report = merge(folders, out, applies_skew=apply_skew)
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    for name, rows in report["rows"].items():
        click.echo(f"{name:<18} {rows:>12,} rows")
    for renamed in report["renamed"]:
        names = f"{label(renamed['node'])} on host {label(renamed['host_id'])} is now {label(renamed['name'])}"
        click.echo(f"two hosts have one name: {names}", err=True)
    if report["conflicts"]:
        click.echo(
            f"{sum(report['conflicts'].values()):,} rows are in conflict with others: {out / 'merge_report.md'}",
            err=True,
        )
    if report["bad_lines"]:
        click.echo(f"{report['bad_lines']:,} lines are not rows: {out / 'merge_report.md'}", err=True)
    click.echo(out)
