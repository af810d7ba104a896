"""gpulake doctor: is everything in order?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._options import json_option, lake_option, settings

MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command()
@click.option("--deep", "is_deep", is_flag=True, help="Read everything: files, logs, journals and the build.")
@lake_option
@json_option
def command(is_deep: bool, lake: Path | None, as_json: bool) -> None:
    """Check the installation and the lake. Exits 1 if something is broken.

    --deep holds every data file to the size and the hash of its commit, looks for commits that are missing, for files
    that no commit names and for lines of journals that cannot be read, and scans the build.

    \b
    Example:  gpulake doctor --deep
    """
    from gpulake.cli._output import print_json
    from gpulake.show.health import check_all

    checks = check_all(settings(lake=lake), is_deep)
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
