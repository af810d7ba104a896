"""gpulake collect schema: what the files of a run look like, for machines."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("file", required=False)
def command(file: str | None) -> None:
    """Print the JSON Schema (2020-12) of a file of a run, or of all of them by name.

    Of a .jsonl file it is the schema of a line, of a .json file that of the document.

    \b
    Example:  gpulake collect schema host_metrics.jsonl
    """
    from gpulake.collect.cctf.schema import schema_of, schemas

    click.echo(json.dumps(schema_of(file) if file else schemas(), indent=2))
