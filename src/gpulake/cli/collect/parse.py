"""gpulake collect parse: a node's raw files into the files of a run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpulake.cli._options import json_option


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--tz", default="UTC", show_default=True, help="Time zone of the logs of mpstat, vmstat and ifstat.")
@click.option(
    "--vmstat-unit",
    type=click.Choice(["auto", "k", "K", "m", "M"]),
    default="auto",
    show_default=True,
    help="Unit of mem.log, as vmstat -S names it; auto: by the node's memory.",
)
@json_option
def command(run_dir: Path, tz: str, vmstat_unit: str, as_json: bool) -> None:
    """Convert the raw files of a node in RUN_DIR to RUN_DIR/cctf.

    Reads the segments of the collector, the rows of adapters, and the text of mpstat (cpu.log), vmstat -t (mem.log) and
    ifstat -t (net.log). Files are written atomically, and the result is reproducible. Lines that do not parse are in
    rejected.jsonl; audit_report.md describes the quality of the files.

    \b
    Example:  gpulake collect parse runs/night1/node7
    """
    from gpulake.collect.cctf.parse import Options, parse

    audit = parse(run_dir, Options(tz=tz, vmstat_unit=vmstat_unit))
    if as_json:
        click.echo(json.dumps(audit, indent=2))
        return
    for name, file in audit["files"].items():
        click.echo(f"{name:<18} {file['rows']:>12,} rows")
    rejected = sum(reject["lines"] for reject in audit["parse"]["rejected_lines"])
    rejected += sum(log["rejected"] for log in audit["parse"]["logs"])
    if rejected:
        click.echo(f"{rejected:,} lines were rejected: see audit_report.md", err=True)
    if audit["parse"]["damaged_blocks"]:
        click.echo(f"{audit['parse']['damaged_blocks']:,} blocks are damaged and skipped", err=True)
    click.echo(run_dir / "cctf")
