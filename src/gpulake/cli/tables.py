"""gpulake tables: what the lake holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.lean_imports import without_numpy
from gpulake.flow import Flow, known_tables

if TYPE_CHECKING:
    from gpulake.show.catalogue import TableInfo


@click.command()
@click.argument("name", required=False)
@flow_options
def command(name: str | None, flow: Flow, as_json: bool) -> None:
    """List the tables with grain, rows and freshness; with NAME, its columns and their units.

    \b
    Example:  gpulake tables gold_cluster_util_daily
    """
    with without_numpy():
        from gpulake.show.catalogue import table_infos

    with flow.lake.open().reading() as reader:
        infos = table_infos(reader, known_tables())
    if name is not None:
        named = [info for info in infos if info.table.name == name]
        if not named:
            raise UsageError(f"no table named {name!r}", choice_hint(name, [info.table.name for info in infos]))
        infos = named
    if as_json:
        print_json([_record(info) for info in infos])
    elif name is not None:
        click.secho(name, bold=True)
        click.echo(infos[0].table.grain)
        rows = [(column.name, column.type, column.description) for column in infos[0].table.columns]
        print_table(("column", "type", "description and unit"), rows)
    else:
        print_table(("table", "rows", "fresh (UTC)", "grain"), [_row(info) for info in infos])


def _record(info: TableInfo) -> dict[str, object]:
    return {
        "name": info.table.name,
        "layer": info.layer,
        "grain": info.table.grain,
        "rows": info.rows,
        "fresh_at": info.fresh_at.isoformat() if info.fresh_at else None,
        "columns": [vars(column) for column in info.table.columns],
    }


def _row(info: TableInfo) -> tuple[object, ...]:
    first = info.table.grain.split(". ")[0].split(":")[0].removesuffix(".")
    fresh = f"{info.fresh_at:%Y-%m-%d %H:%M}" if info.fresh_at else ""
    return info.table.name, info.rows, fresh, first[:1].lower() + first[1:]
