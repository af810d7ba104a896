"""Tables and findings on a terminal; the same as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from gpulake.cli._options import is_quiet
from gpulake.core.types import Finding
from gpulake.core.words import label


def remark(text: str, is_always: bool = False) -> None:
    """On stderr; about a healthy run unless it is printed always."""
    if is_always or not is_quiet():
        click.echo(text, err=True)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Numbers are right-aligned; nothing is cut off, since ids are copied from here."""
    if is_quiet():
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    kept = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        is_number = any(isinstance(row[position], int | float) for row in kept)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=not position)
    for row in kept:
        # Text, not markup: a label may hold square brackets.
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    # A file or a pipe has no width to wrap at.
    width = console.width if console.is_terminal else 10_000
    Console(width=width).print(table)


def print_screen(text: str) -> None:
    """A line without indentation is a heading."""
    for line in text.splitlines():
        click.secho(line, bold=not line.startswith(" "))


def print_findings(findings: Sequence[Finding] | None, most: int = 8) -> None:
    if findings is None or is_quiet():
        return
    click.secho("What was found", bold=True)
    if not findings:
        click.echo("  nothing stands out")
    for finding in findings[:most]:
        click.echo(f"  • {label(finding.headline)}")
        click.secho(f"    {label(finding.detail)}", dim=True)
    if len(findings) > most:
        click.secho(f"  and {len(findings) - most} more: gpulake sql 'from findings'", dim=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return str(value)
