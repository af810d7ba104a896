"""gpulake advise cluster: checkpoints, spare machines, reservations and evaluations, from the cluster's own records."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.cli._times import Span
from gpulake.core.words import NO_NAME, amount, count, label, span
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.replay.advice import Advice, Overhead

MOST_HOLDERS = 12


@click.command()
@click.option("--cluster", help="This cluster. [default: the only one]")
@click.option("--checkpoint-cost", type=Span(), metavar="SPAN", help="Of one. [default: measured, else 60s]")
@click.option("--restart", type=Span(), metavar="SPAN", help="After a failure. [default: measured, else 10m]")
@flow_options
def command(
    cluster: str | None, checkpoint_cost: timedelta | None, restart: timedelta | None, flow: Flow, as_json: bool
) -> None:
    """How often to write checkpoints, how many spare machines, how large a reservation, what evaluations waste.

    Failure rates are those of this cluster's own jobs, by their size, with 95 % intervals; with fewer than five
    failures it says so instead. docs/advice.md defines every number.

    \b
    Example:  gpulake advise cluster --cluster tiger --checkpoint-cost 90s
    """
    from gpulake.flow.advising import cluster_advice

    advice = cluster_advice(flow, cluster, checkpoint_cost, restart)
    if as_json:
        print_json(asdict(advice))
        return
    _print_failures(advice)
    _print_checkpoints(advice)
    _print_spares(advice)
    _print_holders(advice)
    _print_evaluations(advice)


def _print_failures(advice: Advice) -> None:
    click.secho(f"{label(advice.cluster)}: failures of hardware and infrastructure, by the GPUs of a job", bold=True)
    print_table(
        ("GPUs from", "jobs", "GPU-hours", "failures", "per 1,000 GPU-days", "95 % interval"),
        [
            (
                name,
                rate.jobs,
                amount(rate.gpu_hours),
                rate.failures,
                amount(rate.per_gpu_hour * 24_000),
                f"{amount(rate.low_per_gpu_hour * 24_000)} to {amount(rate.high_per_gpu_hour * 24_000)}",
            )
            for name, rate in [*((f"{rate.least_gpus}", rate) for rate in advice.rates), ("all", advice.overall)]
        ],
    )


def _print_checkpoints(advice: Advice) -> None:
    costs = f"{_overhead('checkpoint', advice.checkpoint)}, {_overhead('restart', advice.restart)}"
    click.secho(f"Checkpoint intervals: {costs}", bold=True)
    if not advice.plans:
        click.echo(
            f"  too few failures to say: {advice.overall.failures} in {amount(advice.overall.gpu_hours)} GPU-hours"
        )
        return
    print_table(
        ("GPUs", "rate of", "a failure every", "95 % interval", "Young", "Daly", "best", "goodput", "95 % interval"),
        [
            (
                plan.gpus,
                "its size" if plan.is_rate_of_size else "all sizes",
                span(plan.mttf_seconds),
                f"{span(plan.mttf_low_seconds)} to {span(plan.mttf_high_seconds)}",
                span(plan.young_seconds),
                span(plan.daly_seconds),
                span(plan.best_seconds),
                f"{plan.goodput_ratio:.1%}",
                f"{plan.goodput_low_ratio:.1%} to {plan.goodput_high_ratio:.1%}",
            )
            for plan in advice.plans
        ],
    )


def _overhead(name: str, overhead: Overhead) -> str:
    basis = f"median of {overhead.times:,}" if overhead.basis == "measured" else overhead.basis
    return f"a {name} takes {span(overhead.seconds)} ({basis})"


def _print_spares(advice: Advice) -> None:
    click.secho("Spare machines, so that as many as now are up", bold=True)
    if not advice.spares:
        click.echo("  no machine of this cluster is known by name, so nothing is known of its outages")
        return
    print_table(
        (
            "GPU type",
            "machines",
            "outages",
            "down",
            "with probability",
            "spares",
            "at most",
            "down at once, as recorded",
        ),
        [
            (
                label(each.gpu_type or NO_NAME),
                each.machines,
                each.outages,
                f"{each.down_ratio:.2%}",
                f"{each.probability:.0%}",
                "too few outages" if each.by_theory is None else each.by_theory,
                each.by_theory_at_most,
                each.by_record,
            )
            for each in advice.spares
        ],
    )


def _print_holders(advice: Advice) -> None:
    click.secho("Reservations: GPUs held at once, by share of the time", bold=True)
    if not advice.holders:
        click.echo("  no job of this cluster names an account or a reservation")
        return
    print_table(
        ("", "of", "reserved", "mean", "half of it", "95 %", "99 %", "most"),
        [
            (
                each.kind,
                label(each.holder),
                None if each.reserved_gpus is None else amount(each.reserved_gpus),
                *map(amount, (each.mean_gpus, each.median_gpus, each.p95_gpus, each.p99_gpus, each.most_gpus)),
            )
            for each in advice.holders[:MOST_HOLDERS]
        ],
    )
    if len(advice.holders) > MOST_HOLDERS:
        click.echo(f"  and {len(advice.holders) - MOST_HOLDERS} more: --json has them all")


def _print_evaluations(advice: Advice) -> None:
    found = advice.evaluations
    click.secho("Evaluations decoupled from loading, metrics and training", bold=True)
    if not found.jobs and not found.in_training_gpu_hours:
        click.echo("  no job or training run is known to evaluate")
        return
    click.echo(f"  {count(found.jobs, 'job')} of evaluation held {amount(found.held_gpu_hours)} GPU-hours")
    if found.median_wait_seconds is not None and found.others_median_wait_seconds is not None:
        waits = f"{span(found.median_wait_seconds)}; of other jobs {span(found.others_median_wait_seconds)}"
        click.echo(f"  median wait {waits}")
    click.echo(f"  measured idle or under-used: {amount(found.unused_gpu_hours)} GPU-hours")
    click.echo(
        f"  not observed: {amount(found.unobserved_gpu_hours)}, of which {amount(found.assumed_unused_gpu_hours)} idle"
        " by the published shares (29.5 % loading, 19 % metrics)"
    )
    click.echo(f"  within training runs: {amount(found.in_training_gpu_hours)} GPU-hours")
    click.echo(f"  would have been saved: up to {amount(found.saved_gpu_hours)} GPU-hours")
