"""Advice on one cluster, from what was measured on it: checkpoints, spare machines, reservations, evaluations.

Whatever rests on fewer than five events is not said: the interval of five already spans a factor of seven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from gpulake.core.packaged import built_tables, queries
from gpulake.lake import LakeReader
from gpulake.lake.engine import surrogate_key
from gpulake.replay import reliability

NEAR_SECONDS = 600
CLASSES = (0, 8, 32, 128, 512)  # of jobs: from so many GPUs on
SQL = queries(
    "gpulake.replay",
    "advice.sql",
    near=str(NEAR_SECONDS),
    classes=", ".join(f"({size})" for size in CLASSES),
    pool=surrogate_key("getvariable('cluster')", "'(all machines)'"),
)
NEVER_SECONDS = 1e10  # three centuries
FEWEST = 5  # events that a rate may rest on
SIZES = (8, 32, 128, 512, 2048)  # GPUs of a job, for which checkpoints are advised
PROBABILITIES = (0.95, 0.99)
ASSUMED_CHECKPOINT_SECONDS, ASSUMED_RESTART_SECONDS = 60.0, 600.0
# Of an evaluation in the Acme report (NSDI'24), with GPUs idle: loading and preparing, then computing metrics.
LOADING_RATIO, METRICS_RATIO = 0.295, 0.19


@dataclass(frozen=True)
class Rate:
    """Failures of hardware and infrastructure per GPU-hour, with its 95 % interval."""

    least_gpus: int  # of the jobs that it was measured on
    jobs: int
    gpu_hours: float
    failures: int
    per_gpu_hour: float
    low_per_gpu_hour: float
    high_per_gpu_hour: float

    @property
    def is_known(self) -> bool:
        return self.failures >= FEWEST


@dataclass(frozen=True)
class Overhead:
    """What a checkpoint or a restart takes."""

    seconds: float
    times: int  # measured so often; 0: assumed or given
    basis: str  # measured, assumed or given


@dataclass(frozen=True)
class Plan:
    """A job of so many GPUs. The interval of goodputs is that of the failure rate, each with its own best interval."""

    gpus: int
    rate: Rate
    is_rate_of_size: bool  # else of jobs of all sizes
    mttf_seconds: float
    mttf_low_seconds: float
    mttf_high_seconds: float
    young_seconds: float
    daly_seconds: float
    best_seconds: float
    goodput_ratio: float
    goodput_low_ratio: float
    goodput_high_ratio: float


@dataclass(frozen=True)
class Spares:
    """Machines of one type. by_theory: if they fail independently, at the rate measured and at its upper bound."""

    gpu_type: str | None
    machines: int
    outages: int
    down_ratio: float
    probability: float
    by_theory: int | None  # None: too few outages to say
    by_theory_at_most: int | None
    by_record: int  # as many were down at once, in the rest of the time


@dataclass(frozen=True)
class Holder:
    """GPUs held at once by an account, or by the jobs of a reservation; p95: no more in 95 % of the time."""

    kind: str
    holder: str
    reserved_gpus: float | None
    mean_gpus: float
    median_gpus: float
    p95_gpus: float
    p99_gpus: float
    most_gpus: float


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of models, apart from training and within it, and what decoupling would have saved."""

    jobs: int
    held_gpu_hours: float
    unused_gpu_hours: float  # measured: idle or under-used
    unobserved_gpu_hours: float
    assumed_unused_gpu_hours: float  # of the unobserved ones, by the published shares
    in_training_gpu_hours: float  # a training run held its GPUs and evaluated
    median_wait_seconds: float | None
    others_median_wait_seconds: float | None

    @property
    def saved_gpu_hours(self) -> float:
        return self.unused_gpu_hours + self.assumed_unused_gpu_hours + self.in_training_gpu_hours


@dataclass(frozen=True)
class Advice:
    cluster: str
    rates: list[Rate]
    overall: Rate
    checkpoint: Overhead
    restart: Overhead
    plans: list[Plan]
    spares: list[Spares]
    holders: list[Holder]
    evaluations: Evaluations


@dataclass(frozen=True)
class Measured:
    """What plans of jobs rest on."""

    rates: list[Rate]
    overall: Rate
    checkpoint: Overhead
    restart: Overhead

    def rate_of(self, gpus: float) -> Rate | None:
        """Of jobs of that size if it is known, else of all jobs; None: there are too few failures to say."""
        least = max(size for size in CLASSES if size <= gpus)
        own = [rate for rate in self.rates if rate.least_gpus == least]
        return next((rate for rate in (*own, self.overall) if rate.is_known), None)


@dataclass(frozen=True)
class JobAdvice:
    """A job that is planned. Without a plan, too few failures are known to say."""

    cluster: str
    gpus: int
    work_seconds: float
    overall: Rate
    checkpoint: Overhead
    restart: Overhead
    plan: Plan | None
    failures_at_most: float  # in this much work, at the upper bound of the rate
    interval_seconds: float = 0.0
    # Expected; None: longer than NEVER_SECONDS, or no plan.
    seconds: float | None = None
    failures: float | None = None
    seconds_without_checkpoints: float | None = None


def advise_job(found: Measured, cluster: str, gpus: int, work_seconds: float, interval: float | None) -> JobAdvice:
    plan = planned(found, gpus, interval)
    rate = plan.rate if plan else found.overall
    at_most = rate.high_per_gpu_hour * gpus * work_seconds / 3600
    known = JobAdvice(cluster, gpus, work_seconds, found.overall, found.checkpoint, found.restart, plan, at_most)
    if plan is None:
        return known
    seconds = _bounded(work_seconds / plan.goodput_ratio if plan.goodput_ratio else math.inf)
    without = reliability.segment_seconds(plan.mttf_seconds, found.restart.seconds, work_seconds)
    return replace(
        known,
        interval_seconds=interval or plan.best_seconds,
        seconds=seconds,
        failures=None if seconds is None else seconds / plan.mttf_seconds,
        seconds_without_checkpoints=_bounded(without),
    )


def _bounded(seconds: float) -> float | None:
    return seconds if seconds < NEVER_SECONDS else None


def advice(
    reader: LakeReader, cluster: str, checkpoint_seconds: float | None = None, restart_seconds: float | None = None
) -> Advice:
    found = measured(reader, cluster, checkpoint_seconds, restart_seconds)
    plans = [plan for gpus in SIZES if (plan := planned(found, gpus))]
    spares = [each for row in reader.rows(SQL["outages"], cluster=cluster) for each in _spares(row)]
    holders = [Holder(**row) for row in reader.rows(SQL["reservations"], cluster=cluster)]
    (row,) = reader.rows(SQL["evaluations"], cluster=cluster)
    assumed = row["unobserved_gpu_hours"] * (LOADING_RATIO + METRICS_RATIO)
    evaluations = Evaluations(**row, assumed_unused_gpu_hours=assumed)
    return Advice(
        cluster, found.rates, found.overall, found.checkpoint, found.restart, plans, spares, holders, evaluations
    )


def measured(
    reader: LakeReader, cluster: str, checkpoint_seconds: float | None = None, restart_seconds: float | None = None
) -> Measured:
    """Given overheads go before measured ones, and those before assumed ones."""
    reader.need(built_tables(SQL))
    rows = reader.rows(SQL["failures"], cluster=cluster)
    overheads = []
    for query, given, assumed in (
        ("checkpoints", checkpoint_seconds, ASSUMED_CHECKPOINT_SECONDS),
        ("restarts", restart_seconds, ASSUMED_RESTART_SECONDS),
    ):
        (row,) = reader.rows(SQL[query], cluster=cluster)
        if given is not None:
            overheads.append(Overhead(given, 0, "given"))
        elif row["times"] >= FEWEST:
            overheads.append(Overhead(row["seconds"], row["times"], "measured"))
        else:
            overheads.append(Overhead(assumed, row["times"], "assumed"))
    total = {name: sum(row[name] for row in rows) for name in ("jobs", "gpu_hours", "failures")}
    return Measured([rate_of(**row) for row in rows], rate_of(least_gpus=0, **total), *overheads)


def rate_of(least_gpus: int, jobs: int, gpu_hours: float, failures: int) -> Rate:
    if gpu_hours <= 0:
        return Rate(least_gpus, jobs, 0.0, 0, 0.0, 0.0, 0.0)
    low, high = reliability.poisson_interval(failures)
    return Rate(least_gpus, jobs, gpu_hours, failures, failures / gpu_hours, low / gpu_hours, high / gpu_hours)


def planned(found: Measured, gpus: int, interval_seconds: float | None = None) -> Plan | None:
    """A job of so many GPUs; with an interval that is given, the goodput at that. None: too few failures to say."""
    rate = found.rate_of(gpus)
    if rate is None:
        return None
    cost, restart = found.checkpoint.seconds, found.restart.seconds
    mttf, shortest, longest = (
        3600 / (each * gpus) for each in (rate.per_gpu_hour, rate.high_per_gpu_hour, rate.low_per_gpu_hour)
    )
    goodputs = (
        reliability.goodput_ratio(each, cost, restart, interval_seconds or reliability.best_interval(each, cost))
        for each in (mttf, shortest, longest)
    )
    return Plan(
        gpus,
        rate,
        rate is not found.overall,
        mttf,
        shortest,
        longest,
        reliability.young_interval(mttf, cost),
        reliability.daly_interval(mttf, cost),
        reliability.best_interval(mttf, cost),
        *goodputs,
    )


def _spares(row: dict[str, Any]) -> list[Spares]:
    ratio = row["down_hours"] / (row["machines"] * row["observed_hours"])
    most = ratio * reliability.poisson_interval(row["outages"])[1] / max(1, row["outages"])
    is_known = row["outages"] >= FEWEST
    return [
        Spares(
            row["gpu_type"],
            row["machines"],
            row["outages"],
            ratio,
            probability,
            reliability.spare_machines(row["machines"], ratio, probability) if is_known else None,
            reliability.spare_machines(row["machines"], min(most, 0.5), probability) if is_known else None,
            row[f"down_at_once_p{probability * 100:.0f}"],
        )
        for probability in PROBABILITIES
    ]
