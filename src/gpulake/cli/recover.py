"""gpulake recover: bring a job back after a failure that was diagnosed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import ActError, UsageError

if TYPE_CHECKING:
    from gpulake.act.audit import AuditRow
    from gpulake.act.recovering import Rescue


@click.command()
@click.argument("incident", metavar="INCIDENT_ID", required=False)
@click.option("--executor", help="dry-run, command, slurm or kubernetes. [default: from [recoveries], else dry-run]")
@click.option("--execute", "is_executed", is_flag=True, help="Take the steps, and keep them in table recoveries.")
@click.option("--again", "is_again", is_flag=True, help="Take steps again that were done, or may have been done.")
@click.option("--checkpoints", type=click.Path(path_type=Path), help="Folder of the job's checkpoints; only read.")
@click.option(
    "--nodes",
    "nodes_text",
    metavar="LIST",
    help="The job's nodes, such as n[01-16]: the faulty one is found by testing.",
)
@click.option("--job", "job_id", metavar="JOB_ID", help="The job, where its log does not name it.")
@click.option("--history", "is_history", is_flag=True, help="List the steps that were taken, of all incidents or one.")
@lake_option
@json_option
def command(
    incident: str | None,
    executor: str | None,
    is_executed: bool,
    is_again: bool,
    checkpoints: Path | None,
    nodes_text: str | None,
    job_id: str | None,
    is_history: bool,
    lake: Path | None,
    as_json: bool,
) -> None:
    """What brings a job back: restart, cordon and restart, roll back, or tell the user; and why.

    Nothing is done without --execute. Budgets, brakes and programs are set in [recoveries] of gpulake.toml. The
    beginning of the incident's id is enough.

    \b
    Example:  gpulake recover 4f1c --executor slurm --checkpoints /ckpt/run7
    """
    from gpulake.cli._output import print_json
    from gpulake.core.words import label
    from gpulake.flow import Flow
    from gpulake.flow.recovery import Asked

    config = settings(lake=lake)
    if is_history:
        _print_history(Flow(config).recovered(incident), as_json)
        return
    if not incident:
        raise UsageError("no incident was named", "list them with: gpulake sql 'from incidents'")
    asked = Asked(incident, executor, is_executed, is_again, checkpoints, _nodes(nodes_text), job_id)
    rescue = Flow(config).recover(asked)
    if as_json:
        print_json(_document(rescue, is_executed))
    else:
        _print(rescue, is_executed)
    for taken in rescue.steps:
        if taken.status in ("failed", "unknown") and is_executed:
            how = f"with exit code {taken.exit_code}" if taken.exit_code is not None else "without an exit code"
            job = label(rescue.case.diagnosis.job_id)
            message = f"{taken.step.step} of job {job} {_AFTER[taken.status]} {how}: {taken.detail}"
            raise ActError(message, f"see gpulake recover {rescue.case.incident_id} --history")


def _nodes(text: str | None) -> tuple[str, ...]:
    """In the words of Slurm: n[01-16],n20."""
    from gpulake.core.slurm_words import hosts

    try:
        return tuple(hosts(text)) if text is not None else ()
    except ValueError as error:
        raise UsageError(str(error), "name nodes like n1,n2 or n[01-16]") from error


_AFTER = {"failed": "failed", "unknown": "may have failed"}


def _document(rescue: Rescue, is_executed: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from gpulake.act.telling import message

    diagnosis = rescue.case.diagnosis
    steps = [
        {
            "step": taken.step.step,
            "why": taken.step.why,
            "node": taken.step.node,
            "nodes": list(taken.step.nodes),
            "checkpoint": str(taken.step.checkpoint.path) if taken.step.checkpoint else None,
            "skip_from_step": taken.step.skip_from_step,
            "skip_to_step": taken.step.skip_to_step,
            "commands": [list(one.arguments) for one in taken.commands],
            "status": taken.status,
            "detail": taken.detail,
            "message": message(rescue.case, taken.step.why) if taken.step.step == "tell" else None,
        }
        for taken in rescue.steps
    ]
    return {
        "incident_id": rescue.case.incident_id,
        "recovery_id": rescue.recovery_id,
        "job_id": diagnosis.job_id,
        "reason": diagnosis.reason,
        "action": rescue.plan.action,
        "why": rescue.plan.why,
        "executor": rescue.executor,
        "is_executed": is_executed,
        "attempt": rescue.attempt,
        "done_at": rescue.done_at.isoformat() if rescue.done_at else None,
        "in_doubt": rescue.in_doubt or None,
        "steps": steps,
        "passed_over_checkpoints": [{"name": name, "why": why} for name, why in rescue.plan.passed_over],
        "budget": asdict(rescue.budget),
        "breaker": asdict(rescue.breaker),
    }


def _print(rescue: Rescue, is_executed: bool) -> None:
    from gpulake.core.words import label

    diagnosis = rescue.case.diagnosis
    job = "job unknown" if diagnosis.job_id is None else f"job {label(diagnosis.job_id)}"
    click.secho(f"Incident {label(rescue.case.incident_id)}: {job}, {label(diagnosis.reason)}", bold=True)
    if diagnosis.cause:
        click.echo(f"  {label(diagnosis.cause)}")
    click.echo(f"  {label(rescue.plan.action)}: {label(rescue.plan.why)}")
    if rescue.done_at:
        click.echo(f"done at {rescue.done_at:%Y-%m-%d %H:%M:%S} UTC already; do it again with --again")
        return
    if rescue.in_doubt:
        click.secho(f"In doubt: {label(rescue.in_doubt)}", bold=True)
    is_done = any(taken.status not in (None, "refused") for taken in rescue.steps)
    click.secho(f"{'Done' if is_done else 'Plan'} ({rescue.executor}, restart {rescue.attempt} of the job)", bold=True)
    _print_steps(rescue)
    budget, brake = rescue.budget, rescue.breaker
    click.secho("Budget and brake", bold=True)
    click.echo(
        f"  restarts without progress: {budget.restarts} of {budget.most_restarts}; for the same failure:"
        f" {budget.repeats} of {budget.most_repeats}; rollbacks: {budget.rollbacks} of {budget.most_rollbacks}"
    )
    size = "unknown size" if brake.nodes is None else f"{brake.nodes:,} nodes"
    cordoned = len({*brake.cordoned, *brake.maybe})
    click.echo(
        f"  nodes cordoned: {cordoned} of {brake.most} (cluster of {size});"
        f" in the last hour: {brake.in_last_hour} of {brake.most_per_hour}"
    )
    if rescue.steps and not is_executed:
        click.echo("nothing was done; take these steps with --execute", err=True)


def _print_steps(rescue: Rescue) -> None:
    from gpulake.act.telling import message
    from gpulake.core.words import label

    if not rescue.steps:
        click.echo("  nothing is to be done")
    for number, taken in enumerate(rescue.steps, 1):
        step = taken.step
        about = f" {label(', '.join(step.nodes))}" if step.nodes else f" {label(step.node)}" if step.node else ""
        status = f" [{taken.status}]" if taken.status else ""
        click.echo(f"  {number}. {step.step}{about}{status}: {label(step.why)}")
        if taken.detail:
            click.echo(f"     {label(taken.detail)}")
        if step.skip_to_step is not None:
            click.echo(f"     leaves out the data of steps {step.skip_from_step} to {step.skip_to_step}")
        for one in taken.commands:
            click.echo(f"     $ {label(shlex.join(one.arguments))}")
        if step.step == "tell":
            click.echo(f"     {message(rescue.case, step.why)}")
    for name, why in rescue.plan.passed_over[:5]:
        click.secho(f"     checkpoint {label(name)} {label(why)}", dim=True)


def _print_history(rows: list[AuditRow], as_json: bool) -> None:
    from dataclasses import asdict

    from gpulake.cli._output import print_json, print_table
    from gpulake.core.words import label

    if as_json:
        print_json([{**asdict(row), "stepped_at": row.stepped_at.isoformat()} for row in rows])
        return
    columns = ("when (UTC)", "incident", "recovery", "job", "attempt", "step", "node", "executor", "status", "why")
    print_table(
        columns,
        [
            (
                f"{row.stepped_at:%Y-%m-%d %H:%M:%S}",
                label(row.incident_id),
                row.recovery_id,
                label(row.job_id) if row.job_id is not None else "",
                row.attempt,
                row.step,
                label(row.node) if row.node is not None else "",
                row.executor,
                row.status,
                label(row.detail.get("said") or row.detail.get("why") or "", 120),
            )
            for row in rows
        ],
    )
