"""gpulake sql: query the lake."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import lake_option, settings
from gpulake.core.errors import UsageError

MOST_TERMINAL_ROWS = 1000


@click.command()
@click.argument("query")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="[default: table on a terminal, csv elsewhere]",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of stdout.")
@lake_option
def command(query: str, form: str | None, out: Path | None, lake: Path | None) -> None:
    """Run a read-only query on bronze, silver and gold, by the names of the tables.

    \b
    Example:  gpulake sql 'from gold_cluster_util_daily limit 5'
    """
    from gpulake.lake import Lake

    form = form or ("table" if sys.stdout.isatty() and not out else "csv")
    with Lake(settings(lake=lake)).open().reading() as reader:
        rows = reader.query(query)
    if form == "table":
        if out:
            raise UsageError("a table is for the terminal", "choose csv, json or parquet for a file")
        _print(rows)
        return
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal; name a file with --out")
    try:
        with out.open("wb") if out else nullcontext(click.get_binary_stream("stdout")) as stream:
            _write(rows, form, stream)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}", "name another file with --out") from error


def _print(rows: Any) -> None:
    from gpulake.cli._output import print_table

    print_table(rows.column_names, _rows(rows.slice(0, MOST_TERMINAL_ROWS)))
    if rows.num_rows > MOST_TERMINAL_ROWS:
        click.echo(f"the first {MOST_TERMINAL_ROWS:,} of {rows.num_rows:,} rows; see all with --format csv", err=True)


def _rows(rows: Any) -> Iterator[tuple[Any, ...]]:
    """By position: a join may give two columns one name."""
    for batch in rows.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _unique(names: list[str]) -> list[str]:
    return [
        f"{name}_{names[:position].count(name) + 1}" if name in names[:position] else name
        for position, name in enumerate(names)
    ]


def _write(rows: Any, form: str, stream: Any) -> None:
    if form == "json":
        import json

        names = _unique(rows.column_names)
        records = [dict(zip(names, map(_plain, row), strict=True)) for row in _rows(rows)]
        stream.write((json.dumps(records, default=str, indent=1, allow_nan=False) + "\n").encode())
    elif form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(rows.rename_columns(_unique(rows.column_names)), stream, compression="zstd")
    else:
        import csv
        import io

        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows(_rows(rows))
        text.detach()


def _plain(value: Any) -> Any:
    """What JSON knows; it knows no NaN and no bytes."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.hex() if isinstance(value, bytes) else value
