"""What would have happened: a back-test, scenarios, and their rows in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.errors import InputError

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.replay.backtest import Backtest
    from gpulake.replay.past import Past
    from gpulake.replay.pricing import Price
    from gpulake.replay.scenario import Result, Scenario
    from gpulake.replay.window import Window

WEEK_SECONDS = 7 * 86_400


@dataclass(frozen=True)
class WhatIf:
    past: Past
    backtest: Backtest
    window: Window
    results: list[Result]


def backtest(flow: Flow, cluster: str | None) -> tuple[Past, Backtest]:
    """Whether the simulator can be believed for a cluster."""
    flow.lake.open()
    with flow.step("backtest", is_reader=True) as detail:
        past, tested = _tested(flow, cluster)
        detail.update(cluster=tested.cluster, policy=tested.fit.policy, is_believed=tested.is_believed)
    return past, tested


def _tested(flow: Flow, cluster: str | None) -> tuple[Past, Backtest]:
    from gpulake.replay import backtest as room
    from gpulake.replay.from_lake import choose, clusters
    from gpulake.replay.past import read_past

    with flow.lake.reading() as reader:
        flow.report("reading jobs and machines", 0.05)
        past = read_past(reader, choose(cluster, clusters(reader)[0]))
    tested = room.backtest(past, flow.report)
    flow.lake.append("sim_backtest", list(_backtest_rows(flow, tested)))
    return past, tested


def whatif(
    flow: Flow, cluster: str | None, scenarios: Sequence[Scenario], weeks: float | None, is_forced: bool, has_jobs: bool
) -> WhatIf:
    """The past as the fitted policy gives it, and each scenario. Refused where the back-test is, unless forced."""
    from gpulake.replay.scenario import Scenario, simulate_all
    from gpulake.replay.window import cut

    flow.lake.open()
    with flow.step("whatif", is_reader=True) as detail:
        past, tested = _tested(flow, cluster)
        if not tested.is_believed and not is_forced:
            raise InputError(
                f"cannot say for {past.cluster}: {'; '.join(tested.refusals)}",
                "see: gpulake whatif backtest; --anyway simulates all the same",
            )
        begin = past.begin if weeks is None else max(past.begin, past.until - int(weeks * WEEK_SECONDS))
        window = cut(past, begin, past.until)
        flow.report("simulating", 0.95)
        results = simulate_all(window, tested.fit, [Scenario(), *scenarios], flow.config.gpu_types)
        found = WhatIf(past, tested, window, results)
        flow.lake.append("sim_runs", [_run_row(flow, found, result) for result in results])
        if has_jobs:
            flow.lake.append("sim_jobs", [row for result in results for row in _job_rows(flow, found, result)])
        detail.update(cluster=past.cluster, scenarios=len(scenarios))
    return found


def price(flow: Flow, cluster: str | None, is_forced: bool) -> tuple[Backtest, list[Price]]:
    """What findings, incidents and actions are worth, the most first; nothing where the back-test refuses."""
    from gpulake.replay.pricing import prices, read_priced, refused, row
    from gpulake.replay.window import cut

    flow.lake.open()
    with flow.step("price", is_reader=True) as detail:
        past, tested = _tested(flow, cluster)
        with flow.lake.reading() as reader:
            listed = read_priced(reader, past.cluster)
        if tested.is_believed or is_forced:
            found = prices(cut(past, past.begin, past.until), tested, listed, flow.report)
        else:
            found = list(refused(listed, tested))
        found.sort(key=lambda one: -(one.saved_gpu_hours if one.saved_gpu_hours is not None else float("-inf")))
        about = {"run_id": flow.run_id, "priced_at": flow.clock.now(), "cluster_id": past.cluster}
        flow.lake.append("sim_prices", [row(one, **about) for one in found])
        detail.update(cluster=past.cluster, priced=sum(not one.reason for one in found), listed=len(found))
    return tested, found


def write_plots(found: WhatIf, path: Path) -> None:
    from gpulake.show.whatif_page import write_whatif

    hours = range(found.window.begin, found.window.until, 3600)
    write_whatif(
        path,
        f"What if: {found.past.cluster}",
        [_at(second) for second in hours],
        [(one.scenario.name, one.as_record(), one.queue.tolist()) for one in found.results],
    )


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _backtest_rows(flow: Flow, tested: Backtest) -> Iterator[dict[str, Any]]:
    for score in tested.scores:
        yield {
            "run_id": flow.run_id,
            "tested_at": flow.clock.now(),
            "cluster_id": tested.cluster,
            "policy": tested.fit.policy,
            "ties": list(tested.fit.ties),
            "capacity_share_ratio": tested.fit.capacity_share,
            "latency_seconds": tested.fit.latency_seconds,
            "depth": tested.fit.depth,
            "grouping": score.grouping,
            "group": score.group,
            "runs": score.runs,
            "recorded_wait_seconds": list(score.recorded),
            "simulated_wait_seconds": list(score.simulated),
            "distances_seconds": score.distances,
            "is_believed": tested.is_believed,
            "refusals": list(tested.refusals),
        }


def _run_row(flow: Flow, found: WhatIf, result: Result) -> dict[str, Any]:
    waits = dict(zip(("p50", "p90", "p99"), result.wait_seconds, strict=True))
    same = ("policy", "runs", "unstarted", "utilisation_ratio", "fragmented_ratio", "queue_mean", "held_gpu_hours")
    return {
        "run_id": flow.run_id,
        "simulated_at": flow.clock.now(),
        "cluster_id": found.past.cluster,
        "scenario": result.scenario.name,
        "changes": {name: value for name, value in asdict(result.scenario).items() if value and name != "name"},
        "begin_at": _at(found.window.begin),
        "end_at": _at(found.window.until),
        **{f"{name}_wait_seconds": seconds for name, seconds in waits.items()},
        "p90_error_seconds": found.backtest.error(1),
        **{name: getattr(result, name) for name in (*same, "lost_gpu_hours", "energy_kwh", "cost")},
        "is_believed": found.backtest.is_believed,
    }


def _job_rows(flow: Flow, found: WhatIf, result: Result) -> Iterator[dict[str, Any]]:
    window, outcome = found.window, result.outcome
    recorded, simulated = window.recorded(), window.waits(outcome)
    for j in range(len(window.trace)):
        if not window.is_warm[j]:
            yield {
                "run_id": flow.run_id,
                "scenario": result.scenario.name,
                "cluster_id": found.past.cluster,
                "job_id": str(window.past.job_id[j]),
                "gpus": float(window.trace.milli[j]) / 1000,
                "eligible_at": _at(window.eligible[j]),
                "recorded_wait_seconds": int(recorded[j]),
                "simulated_wait_seconds": int(simulated[j]),
                "started_at": _at(outcome.start[j] + window.begin - 1) if outcome.start[j] >= 0 else None,
                "ended_at": _at(outcome.end[j] + window.begin - 1) if outcome.end[j] >= 0 else None,
                "tries": int(outcome.tries[j]),
                "lost_gpu_hours": float(outcome.lost_gpu_seconds[j]) / 3600,
            }
