"""gpulake report nudges: warn, warn again, then cancel jobs that hold GPUs without using them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._times import Moment
from gpulake.core.errors import ActError
from gpulake.core.words import NO_NAME, label, span
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.act.messages import Message
    from gpulake.act.nudges import Nudge


@click.command()
@click.option("--cluster", help="Only this cluster. [default: all]")
@click.option("--at", type=Moment(), metavar="TIME", help="As of this time, in ISO 8601. [default: when last seen]")
@click.option("--execute", "is_executed", is_flag=True, help="Take the steps: write the journal, run cancel_command.")
@flow_options
def command(cluster: str | None, at: datetime | None, is_executed: bool, flow: Flow, as_json: bool) -> None:
    """Who holds GPUs without using them, and what is due: a warning, a final warning, a cancellation.

    Nothing is done without --execute; then the journal (table nudges) keeps what was done, so that no step is skipped.
    Times, exceptions and the command that cancels are set in [nudges] of gpulake.toml.

    \b
    Example:  gpulake report nudges --cluster pai
    """
    from gpulake.act.messages import messages
    from gpulake.act.nudges import summary

    due = flow.nudges(cluster, at, is_executed)
    letters = messages(due, flow.config.nudges, flow.config.currency)
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


def _print(due: Sequence[Nudge], letters: Sequence[Message], is_executed: bool) -> None:
    from gpulake.act.nudges import summary

    counts = summary(due)
    words = f"warn {counts['warn']}, warn finally {counts['final']}, cancel {counts['cancel']}"
    click.secho(f"{'Done' if is_executed else 'Due'}: {words}; left alone {counts['left alone']}", bold=True)
    if not due:
        click.echo("  no job holds GPUs without using them")
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
