"""gpulake whatif: a cluster's past under another policy, with more GPUs, shorter checkpoints, fewer idle jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE
from gpulake.cli._output import print_json, print_table
from gpulake.cli._progress import progress_bar
from gpulake.cli._times import Span
from gpulake.cli._verbs import Group
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.flow.whatif import WhatIf
    from gpulake.replay.backtest import Backtest
    from gpulake.replay.past import Past
    from gpulake.replay.scenario import Scenario

ARRIVALS = "Arrivals do not react: with shorter queues people would submit more."
cluster_option = click.option("--cluster", help="This cluster, if the lake has several.")


@click.group(cls=Group, invoke_without_command=True)
@cluster_option
@click.option("--policy", help="Another policy; gpulake whatif policies lists them. [default: the one found]")
@click.option("--gpus", metavar="N[:TYPE]", help="More or fewer GPUs, such as +64:A100 or -8.")
@click.option("--checkpoint", type=Span(), metavar="SPAN", help="Jobs restart from checkpoints this far apart.")
@click.option("--cordon-after", type=click.IntRange(1), metavar="N", help="A machine is out for good after N failures.")
@click.option("--cancel-idle", type=Span(), metavar="SPAN", help="Runs with idle GPUs are cancelled after this.")
@click.option("--scenarios", type=FILE, help="A TOML file of [[scenario]] tables with these options as keys.")
@click.option("--weeks", type=click.FloatRange(min=0, min_open=True), help="Only the last weeks of the records.")
@click.option("--plot", type=FILE, help="Write plots of the scenarios to this HTML file.")
@click.option("--save-jobs", "has_jobs", is_flag=True, help="Also write a row per run to table sim_jobs.")
@click.option("--anyway", is_flag=True, help="Simulate even if the back-test says that nothing can be said.")
@flow_options
def command(flow: Flow, as_json: bool, **options: Any) -> None:
    """Say what would have happened to waits, GPU-hours and cost.

    First a back-test: a policy is fitted to the first 60 % of the records and must give the waits of the rest better
    than a guess would. Its error is shown beside each answer. Each scenario is compared with the simulated past.

    \b
    Example:
      gpulake whatif --gpus +64:A100 --weeks 4
      gpulake whatif --policy easy --checkpoint 30m --cordon-after 2 --cancel-idle 1h
      gpulake whatif --scenarios plans.toml --plot plans.html
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    from gpulake.flow.whatif import whatif, write_plots

    asked = _scenarios(options)
    with progress_bar(is_silent=as_json) as flow.report:
        found = whatif(flow, options["cluster"], asked, options["weeks"], options["anyway"], options["has_jobs"])
    if options["plot"]:
        write_plots(found, options["plot"])
    if as_json:
        print_json(
            {
                "cluster": found.past.cluster,
                "backtest": found.backtest.as_record(),
                "scenarios": [one.as_record() for one in found.results],
                "inferred": found.past.inferred,
                "note": ARRIVALS,
            }
        )
    else:
        _print(found)


def _scenarios(options: dict[str, Any]) -> list[Scenario]:
    from gpulake.replay.scenario import Scenario, read_scenarios

    listed = read_scenarios(options["scenarios"]) if options["scenarios"] else []
    words = {
        "policy": options["policy"],
        "gpus": options["gpus"],
        "checkpoint_seconds": _seconds(options["checkpoint"]),
        "cordon_after": options["cordon_after"],
        "cancel_idle_seconds": _seconds(options["cancel_idle"]),
    }
    given = {name: value for name, value in words.items() if value}
    return [*([Scenario(name="what if", **given)] if given else []), *listed]


def _seconds(span: timedelta | None) -> int:
    return 0 if span is None else int(span.total_seconds())


def duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _print(found: WhatIf) -> None:
    columns = ["scenario", "policy", "p50 wait", "p90 wait", "p99 wait", "held", "lost GPU-h", "fragmented", "cost"]
    print_table(
        columns,
        [
            [
                one.scenario.name,
                one.policy,
                *map(duration, one.wait_seconds),
                f"{one.utilisation_ratio:.1%}",
                f"{one.lost_gpu_hours:,.1f}",
                f"{one.fragmented_ratio:.1%}",
                "unknown" if one.cost is None else f"{one.cost:,.0f}",
            ]
            for one in found.results
        ],
    )
    for words in sentences(found):
        click.echo(words)
    _remarks(found.past, found.backtest)


def sentences(found: WhatIf) -> list[str]:
    """What each scenario saves, with the error of the back-test."""
    before, error = found.results[0], found.backtest.error(1)
    return [
        f"{one.scenario.name}: {_saved(before.held_gpu_hours - one.held_gpu_hours)},"
        f" p90 wait from {duration(before.wait_seconds[1])} to {duration(one.wait_seconds[1])}"
        f" (± {duration(error)} by back-test)"
        for one in found.results[1:]
    ]


def _saved(gpu_hours: float) -> str:
    """With shorter queues runs that had not ended hold their GPUs for longer: what is held can grow."""
    return f"{gpu_hours:,.0f} GPU-hours saved" if gpu_hours >= 0 else f"{-gpu_hours:,.0f} GPU-hours more held"


def _remarks(past: Past, tested: Backtest) -> None:
    for reason in tested.refusals:
        click.echo(f"cannot say for {past.cluster}: {reason}", err=True)
    click.echo("  The records do not say how often jobs save checkpoints: as it is, a failure loses all.", err=True)
    for words, count in past.inferred.items():
        click.echo(f"  inferred {count:>10,}  {words}", err=True)
    click.echo(f"  {ARRIVALS}", err=True)


@command.command("backtest")
@cluster_option
@flow_options
def backtest(flow: Flow, as_json: bool, cluster: str | None) -> None:
    """Say whether the simulator can be believed for a cluster, and by how much it is off.

    Recorded starts are held against the GPUs that there are; a policy is fitted to the first 60 % of the time; its
    waits on the rest are held against the recorded ones and against three guesses: no wait, the last week's waits of
    jobs of that size, and the best constant.

    \b
    Example:  gpulake whatif backtest
    """
    from gpulake.flow.whatif import backtest as test

    with progress_bar(is_silent=as_json) as flow.report:
        past, tested = test(flow, cluster)
    if as_json:
        print_json(tested.as_record() | {"inferred": past.inferred, "note": ARRIVALS})
        return
    fit = tested.fit
    ties = f" (as well: {', '.join(fit.ties)})" if fit.ties else ""
    click.echo(f"{past.cluster}: policy {fit.policy}{ties}, {fit.capacity_share:.0%} of the GPUs, latency"
               f" {fit.latency_seconds} s, depth {fit.depth or 'all'}")  # fmt: skip
    names = list(tested.whole.distances)
    print_table(
        ["runs of", "runs", "p50", "simulated", "p90", "simulated", "p99", "simulated", *(f"off: {n}" for n in names)],
        [
            [
                f"{score.grouping} {score.group}".strip(),
                score.runs,
                *(duration(x) for pair in zip(score.recorded, score.simulated, strict=True) for x in pair),
                *(duration(score.distances[name]) for name in names),
            ]
            for score in tested.scores
        ],
    )
    click.echo(f"waiting runs, hourly: {tested.queue_mean:.1f} on average, {tested.queue_error:.1f} off")
    click.echo(f"GPU-hours lost to outages: {tested.lost_recorded_gpu_hours:,.1f} recorded,"
               f" {tested.lost_simulated_gpu_hours:,.1f} simulated")  # fmt: skip
    for one in tested.conflicts:
        click.echo(f"records: {one.words}")
    if tested.is_believed:
        click.echo(f"believed: p90 of unseen time is {duration(tested.error(1))} off")
    _remarks(past, tested)


@command.command("price")
@cluster_option
@click.option("--anyway", is_flag=True, help="Price even if the back-test says that nothing can be said.")
@flow_options
def price(flow: Flow, as_json: bool, cluster: str | None, anyway: bool) -> None:
    """Say what each finding and incident would have saved, and each action did save.

    The past is simulated once more for each: with idle GPUs released after an hour, without the outages of a faulty
    node, with a failed job noticed at once; for an action, as if it had not been taken. Prices are kept in table
    sim_prices, and shown by the dashboard and by gpulake incidents show.

    \b
    Example:  gpulake whatif price
    """
    from gpulake.flow.whatif import price as priced

    with progress_bar(is_silent=as_json) as flow.report:
        tested, found = priced(flow, cluster, anyway)
    if as_json:
        print_json([vars(one) | {"words": one.words} for one in found])
        return
    print_table(
        ["of", "subject", "what it is worth"], [[one.of, f"{one.kind} {one.subject}", one.words] for one in found]
    )
    for reason in tested.refusals:
        click.echo(f"cannot say for {tested.cluster}: {reason}", err=True)
    click.echo(f"  {ARRIVALS}", err=True)


@command.command("policies")
def policies() -> None:
    """List the policies that a cluster can be simulated under.

    \b
    Example:  gpulake whatif policies
    """
    from gpulake.replay.policies import POLICIES

    print_table(["policy", "what it does"], [[name, POLICIES.get(name).words] for name in POLICIES])
