"""gpulake collect status"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import json_option
from gpulake.cli.collect._options import dir_option
from gpulake.collect.reading import one_line
from gpulake.core.errors import UsageError


@click.command(short_help="What is being collected.")
@dir_option
@click.option("--run-id", default="", help="Only this run. [default: all]")
@click.option("--node-id", default="", help="Only this node. [default: all]")
@json_option
def command(base: Path, run_id: str, node_id: str, as_json: bool) -> None:
    """What is being collected under a folder, what it costs, and what had to be dropped; the newest first.

    \b
    Example: gpulake collect status --dir runs --json
    """
    from gpulake.collect import control

    found = [control.run_status(run) for run in control.find_runs(base, run_id, node_id)]
    if run_id and not found:
        raise UsageError(f"no run {run_id!r} under {base}", "see them all: gpulake collect status")
    if as_json:
        document = [{"run_dir": str(one.run.path), **one.status, "state": one.state} for one in found]
        click.echo(json.dumps(document, indent=2))
        return
    if not found:
        click.echo(f"no run under {base}; begin one: gpulake collect start")
        return
    _print_table([_row(one.run.path, one.state, one.status) for one in found])
    for one in found:
        for name, state in one.status.get("sources", {}).items():
            if state != "ok":
                click.echo(one_line(f"{one.run.path}: {name}: {state}"))


def _row(path: Path, state: str, status: Mapping[str, Any]) -> dict[str, str]:
    return {
        "run": one_line(path.parent.name),
        "node": one_line(path.name),
        "state": state,
        "pid": str(status.get("pid", "")),
        "ticks": f"{status.get('acknowledged_tick', 0):,}",
        "missed": f"{status.get('ticks_missed', 0):,}",
        "dropped": f"{status.get('ticks_dropped', 0):,}",
        "last": str(status.get("updated_at", ""))[:19],
        "disk": f"{status.get('used_bytes', 0) / 2**20:,.1f} of {status.get('cap_bytes', 0) / 2**20:,.0f} MiB",
        "cpu": f"{status.get('cpu_ratio', 0) * 100:.2f} %",
        "memory": f"{status.get('resident_bytes', 0) / 2**20:.0f} MiB",
    }


def _print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Plain text: a bare node has no library for tables."""
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for row in ({name: name for name in widths}, *rows):
        click.echo("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())
