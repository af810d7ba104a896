"""What is printed of a stream: a line for each batch, and a summary at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from gpulake.cli._stopping import stopping
from gpulake.core.redaction import redacted

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.flow.ingesting import Ingested


def say(as_json: bool) -> Callable[[str], None]:
    """An error that lasts, to people and, with its end, to the service."""

    def words(error: str) -> None:
        if error:
            click.echo(error, err=True)
        if as_json:
            click.echo(json.dumps({"error": redacted(error)}))

    return words


def print_stream(flow: Flow, batches: Iterable[Ingested], stop: Callable[[], None], as_json: bool) -> None:
    """SIGTERM and Ctrl-C end it after the batch at hand."""
    rows = quarantined = messages = 0
    with stopping(stop), flow.step("ingest") as detail:
        for batch in batches:
            rows, quarantined = rows + batch.rows_landed, quarantined + batch.rows_quarantined
            messages += batch.messages
            detail.update(messages=messages, rows_landed=rows, rows_quarantined=quarantined)
            line = {
                "stream": batch.topic,
                "messages": batch.messages,
                "rows_landed": batch.rows_landed,
                "rows_quarantined": batch.rows_quarantined,
                "until": batch.until_at.isoformat() if batch.until_at else None,
                "lag": batch.lag,
            }
            if as_json:
                click.echo(json.dumps(line))
    if not as_json:
        click.echo(f"{rows:,} rows landed, {quarantined:,} quarantined, of {messages:,} messages.", err=True)
        if quarantined:
            click.echo("See the quarantined rows: gpulake sql 'from quarantine'", err=True)
        click.echo("Next: gpulake build", err=True)
