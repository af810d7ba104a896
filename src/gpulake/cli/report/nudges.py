"""gpulake report nudges: warn, warn again, then cancel what holds GPUs and leaves them empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import ActError, UsageError

if TYPE_CHECKING:
    from gpulake.act.messages import Message
    from gpulake.act.nudges import Nudge


@click.command()
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--at", "at_text", metavar="TIME", help="As of this time, in ISO 8601. [default: when last seen]")
@click.option("--execute", "is_executed", is_flag=True, help="Take the steps: write the journal, run cancel_command.")
@lake_option
@json_option
def command(cluster: str | None, at_text: str | None, is_executed: bool, lake: Path | None, as_json: bool) -> None:
    """Who holds GPUs and leaves them empty, and what is due: a warning, a last warning, a cancellation.

    Nothing is done without --execute; then the journal (table nudges) keeps what was done, so that no step is skipped.
    Times, exceptions and the command that cancels are set in [nudges] of gpulake.toml.

    \b
    Example:  gpulake report nudges --cluster pai
    """
    from gpulake.act.messages import messages
    from gpulake.act.nudges import summary
    from gpulake.cli._output import print_json
    from gpulake.flow import Flow

    config = settings(lake=lake)
    due = Flow(config).nudges(cluster, _time(at_text), is_executed)
    letters = messages(due, config.nudges, config.currency)
    if as_json:
        counts = {"is_executed": is_executed, "counts": summary(due)}
        print_json({**counts, "nudges": list(map(asdict, due)), "messages": list(map(asdict, letters))})
    else:
        _print(due, letters, is_executed)
    for nudge in due:
        if nudge.outcome and nudge.outcome.status != "done":
            job, code = nudge.holder.job_id, nudge.outcome.exit_code
            how = f"with exit code {code}" if code is not None else "without an exit code"
            raise ActError(f"cancelling job {job} failed {how}: {nudge.outcome.detail}", "check cancel_command")


def _time(text: str | None) -> datetime | None:
    """A time that names no zone is in UTC."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time", "write it like 2026-01-31T14:00+08:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _print(due: Sequence[Nudge], letters: Sequence[Message], is_executed: bool) -> None:
    from gpulake.act.nudges import summary
    from gpulake.cli._output import print_table
    from gpulake.core.words import NO_NAME, label, span

    counts = summary(due)
    words = f"warn {counts['warn']}, warn for the last time {counts['final']}, cancel {counts['cancel']}"
    click.secho(f"{'Done' if is_executed else 'Due'}: {words}; left alone {counts['left alone']}", bold=True)
    if not due:
        click.echo("  nobody holds GPUs and leaves them empty")
        return
    columns = ("step", "job", "user", "GPUs", "for", "GPU-hours", "why not")
    rows = [
        (
            nudge.step or "–",
            label(nudge.holder.job_id),
            NO_NAME if nudge.holder.user_id is None else label(nudge.holder.user_id),
            nudge.holder.gpus,
            span(60 * nudge.holder.minutes),
            round(nudge.holder.gpu_hours, 1),
            label(nudge.reason),
        )
        for nudge in due
    ]
    print_table(columns, rows)
    for letter in letters:
        click.secho(letter.subject, bold=True)
        click.echo(f"{letter.text}\n")
    if not is_executed:
        click.echo("nothing was sent and nothing was cancelled; take these steps with --execute", err=True)
