"""gpulake sql: query the lake."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from gpulake.cli._flow import flow_option
from gpulake.cli._options import FILE
from gpulake.cli._output import print_table
from gpulake.core.errors import UsageError
from gpulake.core.lean_imports import without_numpy
from gpulake.flow import Flow

MOST_TERMINAL_ROWS = 1000
BATCH_ROWS = 10_000


@click.command()
@click.argument("query")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="[default: table on a terminal, csv elsewhere]",
)
@click.option("--out", type=FILE, help="Write to this file instead of stdout.")
@click.option("--schema", type=click.Choice(["reference"]), help="Its tables come first. See docs/connect.md.")
@click.option("--untrusted", is_flag=True, help="The query is not yours: allow only the functions of docs/serve.md.")
@flow_option
def command(query: str, form: str | None, out: Path | None, schema: str | None, untrusted: bool, flow: Flow) -> None:
    """Run a read-only query on bronze, silver and gold, by the names of the tables.

    In CSV, text that a spreadsheet would run as a formula has an apostrophe before it; JSON and Parquet are exact.
    On a lake of another user every query is untrusted.

    \b
    Example:  gpulake sql 'from gold_cluster_util_daily limit 5'
    """
    with without_numpy():
        from gpulake.lake.allowed import check, tables_of

    form = form or ("table" if sys.stdout.isatty() and not out else "csv")
    with flow.lake.open().reading(schema=schema or "") as reader:
        if untrusted or flow.lake.root.stat().st_uid != os.geteuid():
            check(reader.connection, query, tables_of(reader.connection))
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
    print_table(rows.column_names, _rows(rows.slice(0, MOST_TERMINAL_ROWS)))
    if rows.num_rows > MOST_TERMINAL_ROWS:
        click.echo(f"the first {MOST_TERMINAL_ROWS:,} of {rows.num_rows:,} rows; see all with --format csv", err=True)


def _rows(rows: Any) -> Iterator[tuple[Any, ...]]:
    """Rows of a table or a part of one, by position: a join may give two columns the same name."""
    for begin in range(0, rows.num_rows, BATCH_ROWS):
        part = rows.slice(begin, BATCH_ROWS)
        yield from zip(*(column.to_pylist() for column in part.columns), strict=True)


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

        from gpulake.show.spreadsheet import harmless, harmless_texts

        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(harmless_texts(rows.column_names))
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            writer.writerows(_rows(harmless(batch)))
        text.detach()


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor bytes."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.hex() if isinstance(value, bytes) else value
