"""The verbs about files of a run and of the collector: parse, merge, audit, schema and bundle."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpulake.cli._options import json_option


@click.command("parse")
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
def parse_run(run_dir: Path, tz: str, vmstat_unit: str, as_json: bool) -> None:
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


@click.command("merge")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where to put the run.")
@click.option(
    "--apply-skew", is_flag=True, help="Correct the clocks by the offsets estimated from traces across nodes."
)
@json_option
def merge_runs(folders: tuple[Path, ...], out: Path, apply_skew: bool, as_json: bool) -> None:
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


@click.command("audit")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def audit_run(folder: Path, as_json: bool) -> None:
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


@click.command("schema")
@click.argument("file", required=False)
def schema(file: str | None) -> None:
    """Print the JSON Schema (2020-12) of a file of a run, or of all of them by name.

    Of a .jsonl file it is the schema of a line, of a .json file that of the document.

    \b
    Example:  gpulake collect schema host_metrics.jsonl
    """
    from gpulake.collect.cctf.schema import schema_of, schemas

    click.echo(json.dumps(schema_of(file) if file else schemas(), indent=2))


@click.command("bundle", short_help="Write the collector as one file.")
@click.argument("out", metavar="OUT.pyz", type=click.Path(path_type=Path, dir_okay=False))
def bundle(out: Path) -> None:
    """Write the collector as one file that runs on a bare node with Python 3.11 or newer, and nothing else.

    The same version makes the same bytes. On the node: python3 OUT.pyz start.

    \b
    Example: gpulake collect bundle collect.pyz
    """
    from gpulake.collect.bundle import write_bundle

    others = write_bundle(out)
    click.echo(f"{out}: {out.stat().st_size:,} bytes, with {', '.join(others)}")
