"""gpulake advise job: the expected goodput of a job that is planned."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli._times import Span
from gpulake.core.words import label, span
from gpulake.flow import Flow

DAY_SECONDS = 86_400


@click.command()
@click.option("--gpus", required=True, type=click.IntRange(min=1), help="Of the job.")
@click.option("--days", required=True, type=click.FloatRange(min=0, min_open=True, max=3650), help="Of work.")
@click.option("--cluster", help="This cluster. [default: the only one]")
@click.option("--checkpoint", type=Span(), metavar="SPAN", help="Time between two. [default: the best]")
@click.option("--checkpoint-cost", type=Span(), metavar="SPAN", help="Of one. [default: measured, else 60s]")
@click.option("--restart", type=Span(), metavar="SPAN", help="After a failure. [default: measured, else 10m]")
@flow_options
def command(
    gpus: int,
    days: float,
    cluster: str | None,
    checkpoint: timedelta | None,
    checkpoint_cost: timedelta | None,
    restart: timedelta | None,
    flow: Flow,
    as_json: bool,
) -> None:
    """How long a job of so many GPUs and days of work takes on this cluster, and how much of it is work.

    From the rate at which this cluster's jobs of that size failed, with its 95 % interval. Time in the queue does not
    count. docs/advice.md has the formula.

    \b
    Example:  gpulake advise job --gpus 512 --days 14 --checkpoint 30m
    """
    from gpulake.flow.advising import job_advice

    advice = job_advice(flow, cluster, gpus, days * DAY_SECONDS, checkpoint, checkpoint_cost, restart)
    if as_json:
        print_json(asdict(advice))
        return
    if advice.plan is None:
        rate = advice.overall
        click.echo(
            f"{label(advice.cluster)}: too few failures to say, {rate.failures} in {rate.gpu_hours:,.0f} GPU-hours"
        )
        if rate.gpu_hours:
            click.echo(f"  at 95 % confidence at most {advice.failures_at_most:,.1f} failures in this job")
        return
    plan = advice.plan
    basis = "of its size" if plan.is_rate_of_size else "of all sizes"
    click.secho(f"{label(advice.cluster)}: {gpus:,} GPUs for {days:g} days of work", bold=True)
    click.echo(f"  a failure every {span(plan.mttf_seconds)}, from {plan.rate.failures} failures of jobs {basis}")
    click.echo(f"  checkpoints every {span(advice.interval_seconds)} (best: {span(plan.best_seconds)})")
    low, high = plan.goodput_low_ratio, plan.goodput_high_ratio
    click.echo(f"  goodput {plan.goodput_ratio:.1%} (95 % interval {low:.1%} to {high:.1%})")
    click.echo(f"  expected: {_days(advice.seconds)}, without checkpoints {_days(advice.seconds_without_checkpoints)}")
    if advice.failures is not None:
        click.echo(f"  expected failures: {advice.failures:,.1f}")


def _days(seconds: float | None) -> str:
    return "it never ends" if seconds is None else f"{seconds / DAY_SECONDS:,.1f} days"
