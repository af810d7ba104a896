"""gpulake tables: what the lake holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import UsageError, choice_hint

if TYPE_CHECKING:
    from gpulake.show.catalogue import TableInfo


@click.command()
@click.argument("name", required=False)
@lake_option
@json_option
def command(name: str | None, lake: Path | None, as_json: bool) -> None:
    """List the tables with grain, rows and freshness; with NAME, its columns and their units.

    \b
    Example:  gpulake tables gold_cluster_util_daily
    """
    from gpulake.cli._output import print_json
    from gpulake.flow import known_tables
    from gpulake.lake import Lake
    from gpulake.show.catalogue import table_infos

    with Lake(settings(lake=lake)).open().reading() as reader:
        infos = table_infos(reader, known_tables())
    if name is not None:
        found = [info for info in infos if info.table.name == name]
        if not found:
            raise UsageError(f"no table named {name!r}", choice_hint(name, [info.table.name for info in infos]))
        infos = found
    if as_json:
        print_json([_record(info) for info in infos])
    elif name is not None:
        _print_columns(infos[0])
    else:
        _print_list(infos)


def _record(info: TableInfo) -> dict[str, object]:
    columns = [vars(column) for column in info.table.columns]
    return {
        "name": info.table.name,
        "layer": info.layer,
        "grain": info.table.grain,
        "rows": info.rows,
        "fresh_at": info.fresh_at.isoformat() if info.fresh_at else None,
        "columns": columns,
    }


def _print_list(infos: list[TableInfo]) -> None:
    from gpulake.cli._output import print_table

    rows = [
        (info.table.name, info.rows, f"{info.fresh_at:%Y-%m-%d %H:%M}" if info.fresh_at else "", _first_sentence(info))
        for info in infos
    ]
    print_table(("table", "rows", "fresh (UTC)", "grain"), rows)


def _first_sentence(info: TableInfo) -> str:
    words = info.table.grain.split(". ")[0].split(":")[0].removesuffix(".")
    return words[:1].lower() + words[1:]


def _print_columns(info: TableInfo) -> None:
    from gpulake.cli._output import print_table

    click.secho(info.table.name, bold=True)
    click.echo(info.table.grain)
    rows = [(column.name, column.type, column.description) for column in info.table.columns]
    print_table(("column", "type", "what it is, and its unit"), rows)
