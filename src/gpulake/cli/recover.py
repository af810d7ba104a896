"""gpulake recover: bring a job back after a failure that was diagnosed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli._times import Span
from gpulake.core.errors import ActError, UsageError
from gpulake.core.words import label
from gpulake.flow import Flow

_AFTER = {"failed": "failed", "unknown": "may have failed"}


@click.command()
@click.argument("incident", metavar="INCIDENT_ID", required=False)
@click.option("--executor", help="dry-run, command, slurm or kubernetes. [default: from [recoveries], else dry-run]")
@click.option("--execute", "is_executed", is_flag=True, help="Take the steps, and keep them in table recoveries.")
@click.option("--again", "is_again", is_flag=True, help="Take steps that were, or may have been, done; or are late.")
@click.option("--checkpoints", type=click.Path(path_type=Path), help="Folder of the job's checkpoints; only read.")
@click.option(
    "--nodes",
    "nodes_text",
    metavar="LIST",
    help="The job's nodes, such as n[01-16], where no record has them; the faulty one is found by testing.",
)
@click.option("--job", "job_id", metavar="JOB_ID", help="The job, where only its log names it.")
@click.option("--watch", "is_watching", is_flag=True, help="Recover from every failure, until it is stopped.")
@click.option(
    "--since",
    type=Span(),
    default="1h",
    show_default=True,
    help="With --watch: leave out incidents that were opened longer before it began.",
)
@click.option("--uncordon", "node", metavar="NODE", help="Return a node to service if it passes check_command.")
@click.option("--history", "is_history", is_flag=True, help="List the steps that were taken, of all incidents or one.")
@flow_options
def command(
    incident: str | None,
    executor: str | None,
    is_executed: bool,
    is_again: bool,
    checkpoints: Path | None,
    nodes_text: str | None,
    job_id: str | None,
    is_watching: bool,
    since: timedelta,
    node: str | None,
    is_history: bool,
    flow: Flow,
    as_json: bool,
) -> None:
    """What brings a job back: restart, cordon and restart, roll back, or notify the user; and why.

    Nothing is done without --execute. Budgets, brakes and programs are set in [recoveries] of gpulake.toml. The
    beginning of the incident's id is enough. While the file STOP_RECOVERIES is in the lake, no step is taken.

    \b
    Example:  gpulake recover 4f1c --executor slurm --checkpoints /ckpt/run7
    """
    from gpulake.act.recovery import Asked
    from gpulake.cli._rescue import document, print_history, print_rescue, print_returned
    from gpulake.cli._watched import watch

    if is_history:
        print_history(flow.recovered(incident), as_json)
        return
    if node is not None:
        print_returned(flow.uncordon(node, is_executed), as_json)
        return
    if is_watching:
        if incident or job_id or nodes_text or is_again or checkpoints:
            raise UsageError("--watch recovers every job, and takes no incident and no facts of one job")
        watch(flow, Asked("", executor, is_executed), since, as_json)
        return
    if not incident:
        raise UsageError("no incident was named", "list them with: gpulake incidents list")
    asked = Asked(incident, executor, is_executed, is_again, checkpoints, _nodes(nodes_text), job_id)
    rescue = flow.recover(asked)
    if as_json:
        print_json(document(rescue, is_executed))
    else:
        print_rescue(rescue, is_executed)
    for taken in rescue.steps:
        if taken.status in ("failed", "unknown") and is_executed:
            how = f"with exit code {taken.exit_code}" if taken.exit_code is not None else "without an exit code"
            job = label(rescue.failure.diagnosis.job_id)
            message = f"{taken.step.step} of job {job} {_AFTER[taken.status]} {how}: {taken.detail}"
            raise ActError(message, f"see gpulake recover {rescue.failure.incident_id} --history")


def _nodes(text: str | None) -> tuple[str, ...]:
    """In the words of Slurm: n[01-16],n20."""
    from gpulake.formats.slurm import hosts

    try:
        return tuple(hosts(text)) if text is not None else ()
    except ValueError as error:
        raise UsageError(str(error), "name nodes like n1,n2 or n[01-16]") from error
