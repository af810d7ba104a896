"""The back-test: does a policy reproduce the waits of a time that it was not fitted to, and better than a guess?

Fitted on the first 60 % of the time: policy, dispatch latency, backfill depth and the share of the GPUs that jobs can
have. Scored on the rest. The simulation starts with what ran and waited at the begin of the records; later it is told
only arrivals, run times and outages. Waits count from eligibility; what had not started by the end is censored there,
in the records and in the simulation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.core.progress import Report, silent
from gpulake.replay.identity import Conflict, conflicts
from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.past import WEEK_SECONDS, Past
from gpulake.replay.policies import POLICIES
from gpulake.replay.simulation import Outcome
from gpulake.replay.trace import Machines, Tuning
from gpulake.replay.window import Window, cut, run

FIT_SHARE = 0.6
SHARES = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8)
DEPTHS = (0, 1, 10, 100)
QUANTILES = (0.5, 0.9, 0.99)
LEAST_SCORED = 20
TIE = 1.02  # policies whose error is within this factor of the least cannot be told apart
MOST_CONFLICT = 0.02  # of GPU time that is held beyond what machines have
WORDS = "arrivals do not react: with shorter queues people would submit more"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    policy: str
    capacity_share: float
    latency_seconds: int
    depth: int
    error_seconds: float  # mean distance of a run's wait from the recorded one, on what it was fitted to
    ties: tuple[str, ...]  # policies that explain it as well

    @property
    def tuning(self) -> Tuning:
        return Tuning(latency_seconds=self.latency_seconds, depth=self.depth)


@dataclass(frozen=True)
class Score:
    """Waits of some of the runs: as recorded, as simulated, and by three guesses."""

    grouping: str  # all, size, gpu_type or queue
    group: str
    runs: int
    recorded: tuple[float, ...]  # p50, p90, p99, in seconds
    simulated: tuple[float, ...]
    distances: dict[str, float]  # mean distance of the two distributions, by what was guessed, in seconds


@dataclass(frozen=True)
class Backtest:
    cluster: str
    fit: Fit
    scores: tuple[Score, ...]
    conflict_ratio: float
    conflicts: tuple[Conflict, ...]
    queue_error: float  # mean distance of the hourly number of waiting runs
    queue_mean: float
    lost_recorded_gpu_hours: float
    lost_simulated_gpu_hours: float
    refusals: tuple[str, ...]  # why nothing can be said for this cluster; empty: it can

    @property
    def is_believed(self) -> bool:
        return not self.refusals

    @property
    def whole(self) -> Score:
        return self.scores[0]

    def error(self, quantile: int) -> float:
        """By how many seconds a quantile of the wait was missed, on a time that it was not fitted to."""
        return abs(self.whole.simulated[quantile] - self.whole.recorded[quantile])

    def as_record(self) -> dict[str, Any]:
        return asdict(self) | {"is_believed": self.is_believed}


def backtest(past: Past, report: Report = silent, policies: Iterable[str] = ()) -> Backtest:
    split = past.begin + int((past.until - past.begin) * FIT_SHARE)
    first, whole = cut(past, past.begin, split), cut(past, past.begin, past.until)
    is_scored = ~whole.is_warm & (whole.eligible >= split)
    if min((~first.is_warm).sum(), is_scored.sum()) < LEAST_SCORED:
        raise InputError(
            f"{past.cluster} has too few runs for a back-test: {len(past)}",
            f"both parts of the time need {LEAST_SCORED} runs that started in them",
        )
    fitted = fit(first, list(policies) or list(POLICIES), report)
    report("scoring the rest", 0.9)
    used = replace(whole, machines=shared(whole.machines, fitted.capacity_share))
    outcome = run(used, POLICIES.get(fitted.policy), fitted.tuning)
    guesses = {"simulated": whole.waits(outcome), **baselines(first, whole)}
    labels = {"size": whole.past.size, "gpu_type": whole.past.gpu_type, "queue": whole.past.queue}
    recorded = whole.recorded()
    scores = [_score("all", "", is_scored, recorded, guesses)]
    for grouping, values in labels.items():
        for group in np.unique(values):
            is_chosen = is_scored & (values == group)
            if group and is_chosen.sum() >= LEAST_SCORED:
                scores.append(_score(grouping, str(group), is_chosen, recorded, guesses))
    ratio, found = conflicts(past)
    hours = -(-(past.until - split) // 3600)
    recorded_queue = queue_lengths(whole, whole.past.start)[-hours:]
    queue = queue_lengths(whole, starts_of(whole, outcome))[-hours:]
    return Backtest(
        past.cluster,
        fitted,
        tuple(scores),
        ratio,
        found,
        float(np.abs(recorded_queue - queue).mean()),
        float(recorded_queue.mean()),
        sum(seconds for at, seconds in past.lost if at >= split) / 3600,
        float(outcome.lost_gpu_seconds[whole.eligible >= split].sum() / 3600),
        _refusals(scores[0], ratio, found),
    )


def fit(window: Window, policies: list[str], report: Report) -> Fit:
    """One after the other: policy, then the share of GPUs, then the depth; latency is what the quickest waited."""
    recorded, is_scored = window.recorded(), ~window.is_warm
    latency = int(np.quantile(recorded[is_scored], 0.05))

    def error(policy: str, share: float, depth: int) -> float:
        used = replace(window, machines=shared(window.machines, share))
        outcome = run(used, POLICIES.get(policy), Tuning(latency_seconds=latency, depth=depth))
        return float(np.abs(window.waits(outcome) - recorded)[is_scored].mean())

    errors = {}
    for number, policy in enumerate(policies):
        report(f"fitting {policy}", 0.1 + 0.6 * number / len(policies))
        errors[policy] = error(policy, 1.0, 0)
    best = min(errors, key=lambda name: (errors[name], name))
    report("fitting the share of GPUs", 0.75)
    share = min(SHARES, key=lambda one: (error(best, one, 0), -one))
    depth = min(DEPTHS, key=lambda one: (error(best, share, one), one))
    ties = tuple(name for name in errors if name != best and errors[name] <= errors[best] * TIE)
    return Fit(best, share, latency, depth, error(best, share, depth), ties)


def shared(machines: Machines, share: float) -> Machines:
    """A cluster of which jobs can have only a part: every machine loses it, the rounding goes to the largest."""
    if share >= 1:
        return machines
    kept = np.floor(np.cumsum(machines.gpus) * share).astype(np.int64)
    return replace(machines, gpus=np.diff(kept, prepend=0))


def baselines(first: Window, rest: Window) -> dict[str, Floats]:
    """Guesses that need no simulation: no wait, the last week's waits of the same size, the best constant."""
    known, scored = first.recorded(), ~first.is_warm
    is_last = scored & (first.eligible >= first.until - WEEK_SECONDS)
    is_last = is_last if is_last.any() else scored
    by_size = np.full(len(rest.eligible), np.median(known[is_last]))
    for size in np.unique(rest.past.size):
        like = known[is_last & (first.past.size == size)]
        if len(like):
            # In the order of arrival, drawn evenly: the distribution of last week.
            places = np.flatnonzero(rest.past.size == size)
            levels = np.random.default_rng(0).permutation((np.arange(len(places)) + 0.5) / len(places))
            by_size[places] = np.quantile(like, levels)
    best = np.median(known[scored])
    return {
        "no wait": np.zeros(len(rest.eligible)),
        "last week by size": by_size,
        "best constant": np.full(len(rest.eligible), best),
    }


def _score(grouping: str, group: str, chosen: NDArray[np.bool_], recorded: Ints, guesses: dict[str, Any]) -> Score:
    distances = {name: distance(recorded[chosen], values[chosen]) for name, values in guesses.items()}
    return Score(
        grouping,
        group,
        int(chosen.sum()),
        _quantiles(recorded[chosen]),
        _quantiles(guesses["simulated"][chosen]),
        distances,
    )


def _quantiles(waits: Any) -> tuple[float, ...]:
    return tuple(float(np.quantile(waits, level)) for level in QUANTILES)


def distance(one: Any, two: Any) -> float:
    """Between two distributions of as many values: the mean distance of their sorted values (Wasserstein)."""
    return float(np.abs(np.sort(one) - np.sort(two)).mean())


def starts_of(window: Window, outcome: Outcome) -> Ints:
    return np.where(outcome.start < 0, window.until, outcome.start + window.begin - 1)


def queue_lengths(window: Window, start: Ints) -> Floats:
    """Runs that wait, at each full hour."""
    hours = np.arange(window.begin, window.until, 3600)
    came = np.searchsorted(np.sort(window.eligible[~window.is_warm]), hours, side="right")
    left = np.searchsorted(np.sort(start[~window.is_warm]), hours, side="right")
    return (came - left).astype(np.float64)


def _refusals(whole: Score, conflict_ratio: float, found: tuple[Conflict, ...]) -> tuple[str, ...]:
    reasons = []
    own = whole.distances["simulated"]
    for name, other in whole.distances.items():
        if name != "simulated" and own > other:
            reasons.append(
                f"'{name}' is closer to the recorded waits than the simulation: {other:,.0f} s and {own:,.0f} s off"
            )
    if conflict_ratio > MOST_CONFLICT:
        reasons.append(
            f"the records hold more GPUs than there are for {conflict_ratio:.1%} of the GPU time"
            f" ({found[0].words if found else ''})"
        )
    return tuple(reasons)
