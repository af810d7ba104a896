"""gpulake sql: query the lake."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from gpulake.cli._options import lake_option, settings

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
    if form == "table" and out is None:
        _print(rows)
        return
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal; name a file with --out")
    with out.open("wb") if out else nullcontext(click.get_binary_stream("stdout")) as stream:
        _write(rows, form, stream)


def _print(rows: Any) -> None:
    from gpulake.cli._output import print_table

    print_table(rows.column_names, [tuple(row.values()) for row in rows.slice(0, MOST_TERMINAL_ROWS).to_pylist()])
    if rows.num_rows > MOST_TERMINAL_ROWS:
        click.echo(f"the first {MOST_TERMINAL_ROWS:,} of {rows.num_rows:,} rows; see all with --format csv", err=True)


def _write(rows: Any, form: str, stream: Any) -> None:
    if form == "json":
        import json

        stream.write((json.dumps(rows.to_pylist(), default=str, indent=1) + "\n").encode())
    elif form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(rows, stream, compression="zstd")
    else:
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(rows.column_names)
        for batch in rows.to_batches(max_chunksize=10_000):
            writer.writerows(row.values() for row in batch.to_pylist())
            stream.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
        stream.write(text.getvalue().encode())
