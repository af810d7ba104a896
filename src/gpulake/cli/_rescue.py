"""A recovery as text and as JSON: its plan or its outcome, and the audit trail."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

import click

from gpulake.act.audit import AuditRow
from gpulake.act.execution import Rescue, message
from gpulake.act.returning import Returned
from gpulake.cli._output import print_json, print_table
from gpulake.core.words import label


def document(rescue: Rescue, is_executed: bool) -> dict[str, Any]:
    diagnosis = rescue.failure.diagnosis
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
            "message": message(rescue.failure, taken.step.why) if taken.step.step == "tell" else None,
        }
        for taken in rescue.steps
    ]
    return {
        "incident_id": rescue.failure.incident_id,
        "recovery_id": rescue.recovery_id,
        "job_id": diagnosis.job_id,
        "claimed_job_id": diagnosis.claimed_job_id,
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


def print_rescue(rescue: Rescue, is_executed: bool) -> None:
    diagnosis = rescue.failure.diagnosis
    job = "job unknown" if diagnosis.job_id is None else f"job {label(diagnosis.job_id)}"
    if diagnosis.job_id is None and diagnosis.claimed_job_id is not None:
        job = f"job {label(diagnosis.claimed_job_id)} (claimed by the log)"
    click.secho(f"Incident {label(rescue.failure.incident_id)}: {job}, {label(diagnosis.reason)}", bold=True)
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
            click.echo(f"     {message(rescue.failure, step.why)}")
    for name, why in rescue.plan.passed_over[:5]:
        click.secho(f"     checkpoint {label(name)} {label(why)}", dim=True)


def print_returned(found: Returned, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
        return
    click.secho(f"Node {label(found.node)}, cordoned for incident {label(found.incident_id)}", bold=True)
    for status, command in zip((found.check, found.uncordon, found.uncordon), found.commands, strict=False):
        click.echo(f"  $ {label(shlex.join(command))}{f' [{status}]' if status else ''}")
    click.echo(f"  {returned_words(found)}")


def returned_words(found: Returned) -> str:
    if found.check is None:
        return "nothing was done; check it, and return it if it passes, with --execute"
    if found.check != "done":
        return f"stays out of service: the check failed: {label(found.detail)}"
    if found.uncordon != "done":
        return f"passed the check, and was not returned ({found.uncordon}): {label(found.detail)}"
    return "passed the check, and is back in service"


def print_history(rows: list[AuditRow], as_json: bool) -> None:
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
