"""gpulake doctor: is everything in order?"""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.flow import Flow

MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command()
@click.option("--deep", "is_deep", is_flag=True, help="Read everything: files, logs, journals and the build.")
@click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", help="Also check what Spark needs.")
@flow_options
def command(is_deep: bool, engine: str, flow: Flow, as_json: bool) -> None:
    """Check the installation and the lake. Exits 1 if something is broken.

    --deep compares every data file with the size and the hash of its commit, looks for missing commits, for files
    without a commit and for unreadable lines of journals, and scans the build.

    \b
    Example:  gpulake doctor --deep
    """
    from gpulake.show.health import Check, check_all

    checks = check_all(flow.config, is_deep)
    if engine == "spark":
        from gpulake.flow.building import spark_parts

        checks += [Check(part, "fail" if hint else "ok", found, hint) for part, found, hint in spark_parts()]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            mark, colour = MARKS[check.status]
            click.echo(f"{click.style(f'{mark:5}', fg=colour)} {check.name:13} {check.detail}")
            if check.status != "ok" and check.hint:
                click.echo(f"{'':19} {check.hint}")
    if any(check.status == "fail" for check in checks):
        raise click.exceptions.Exit(1)
