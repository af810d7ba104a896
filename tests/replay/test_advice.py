"""Advice on a small cluster of Slurm, against counts that look at every minute."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.flow.advising import cluster_advice, job_advice
from gpulake.lake import Lake
from gpulake.replay.advice import Advice, Measured, Overhead, advise_job, planned, rate_of
from gpulake.replay.reliability import best_interval, goodput_ratio, poisson_interval, spare_machines
from lake_cache import copied

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
MINUTES = 14 * 24 * 60
NODES = [f"n{number}" for number in range(1, 9)]
FIELDS = (
    "JobID|JobName|User|Account|Cluster|State|Submit|Eligible|Start|End"
    "|NNodes|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList"
)


@dataclass(frozen=True)
class Job:
    """Times in minutes."""

    name: str
    account: str
    state: str
    began: int
    ended: int
    nodes: tuple[str, ...]
    gpus: int  # of each node


@dataclass(frozen=True)
class Outage:
    node: str
    began: int
    ended: int


def at(minutes: int) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def story() -> tuple[list[Job], list[Outage]]:
    dice = random.Random(5)
    outages = [
        Outage(node, began, began + dice.randint(30, 900))
        for node in NODES
        for began in (dice.randint(0, 9_000), dice.randint(10_000, 19_000))
    ]
    jobs = [
        # The observation lasts all the time.
        Job("first", "ops", "COMPLETED", 0, 10, ("n1",), 1),
        Job("last", "ops", "COMPLETED", MINUTES - 10, MINUTES, ("n1",), 1),
    ]
    for number in range(120):
        nodes = tuple(sorted(dice.sample(NODES, dice.choice([1, 1, 4, 5, 8]))))
        began = dice.randrange(MINUTES - 3_000)
        state = dice.choice(["COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED by 1000"])
        name = dice.choice(["train", "eval-mmlu"])
        jobs.append(
            Job(
                f"{name}{number}",
                f"a{number % 3}",
                state,
                began,
                began + dice.randint(5, 2_000),
                nodes,
                dice.choice([1, 8]),
            )
        )
    # Lost as their machine went down, a little before and a little after; the last has nothing to do with it.
    for outage, shift in zip(outages, (-9, 0, 9, 10, 11), strict=False):
        jobs.append(Job("struck", "a1", "FAILED", outage.began - 100, outage.began + shift, (outage.node,), 8))
    return jobs, outages


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    def make(folder: Path) -> None:
        jobs, outages = story()
        (folder / "raw").mkdir()
        lines = [FIELDS]
        for number, job in enumerate(jobs):
            times = "|".join(
                f"{at(minute):%Y-%m-%dT%H:%M:%S}" for minute in (job.began, job.began, job.began, job.ended)
            )
            gpus = f"gres/gpu={job.gpus * len(job.nodes)}"
            lines.append(
                f"{number}|{job.name}|u|{job.account}|tiger|{job.state}|{times}|{len(job.nodes)}|8|16G|{gpus}|{gpus}"
                f"|{','.join(job.nodes)}"
            )
        (folder / "raw" / "sacct.txt").write_text("\n".join(lines) + "\n")
        rows = [f"tiger,{each.node},{at(each.began).isoformat()},{at(each.ended).isoformat()},x" for each in outages]
        (folder / "raw" / "outages.csv").write_text(
            "cluster,machine,started_at,ended_at,reason\n" + "\n".join(rows) + "\n"
        )
        machines = [f"tiger,{node},H100,8,96,2048" for node in NODES]
        (folder / "raw" / "machines.csv").write_text(
            "cluster,machine,gpu_type,gpus,cores,memory_gib\n" + "\n".join(machines) + "\n"
        )
        Flow(Config(lake=folder / "lake", threads=1)).refresh([folder / "raw"], None)

    return Config(lake=copied("advice", make, tmp_path_factory.mktemp("advice")) / "lake", threads=1)


@pytest.fixture(scope="module")
def advice(config: Config) -> Advice:
    return cluster_advice(Flow(config), "tiger")


def hit(job: Job, outages: list[Outage]) -> bool:
    if job.state == "NODE_FAIL":
        return True
    near = any(each.node in job.nodes and abs(each.began - job.ended) <= 10 for each in outages)
    return job.state == "FAILED" and near


def down_at_once(outages: list[Outage]) -> Iterator[int]:
    for minute in range(MINUTES):
        yield len({each.node for each in outages if each.began <= minute < each.ended})


def level(values: list[float], probability: float) -> float:
    """The least level that suffices for this share of the minutes."""
    return sorted(values)[-(-round(probability * len(values) * 1000) // 1000) - 1]


@pytest.mark.slow
def test_failures_of_hardware_are_counted_by_the_size_of_the_job(advice: Advice) -> None:
    jobs, outages = story()
    failures: Counter[int] = Counter()
    hours: dict[int, float] = defaultdict(float)
    for job in jobs:
        gpus = job.gpus * len(job.nodes)
        least = max(each for each in (0, 8, 32, 128, 512) if each <= gpus)
        failures[least] += hit(job, outages)
        hours[least] += gpus * (job.ended - job.began) / 60
    assert {rate.least_gpus: rate.failures for rate in advice.rates} == {least: failures[least] for least in hours}
    assert {rate.least_gpus: rate.gpu_hours for rate in advice.rates} == pytest.approx(dict(hours))
    assert advice.overall.failures == sum(failures.values()) > 20
    low, high = poisson_interval(advice.overall.failures)
    total = sum(hours.values())
    assert advice.overall.low_per_gpu_hour == pytest.approx(low / total)
    assert advice.overall.high_per_gpu_hour == pytest.approx(high / total)


@pytest.mark.slow
def test_spares_follow_from_the_outages(advice: Advice) -> None:
    _, outages = story()
    counts = list(down_at_once(outages))
    ratio = sum(counts) / (MINUTES * len(NODES))
    assert [(each.probability, each.machines, each.outages) for each in advice.spares] == [(0.95, 8, 16), (0.99, 8, 16)]
    for each in advice.spares:
        assert each.down_ratio == pytest.approx(ratio)
        assert each.by_theory == spare_machines(8, ratio, each.probability)
        assert each.by_theory_at_most is not None
        assert each.by_theory_at_most >= each.by_theory
        assert each.by_record == level([float(value) for value in counts], each.probability)


@pytest.mark.slow
def test_reservations_follow_from_what_accounts_held_at_once(advice: Advice) -> None:
    jobs, _ = story()
    found = {each.holder: each for each in advice.holders}
    assert set(found) == {job.account for job in jobs}
    for account, holder in found.items():
        held = [0.0] * MINUTES
        for job in jobs:
            if job.account == account:
                for minute in range(job.began, job.ended):
                    held[minute] += job.gpus * len(job.nodes)
        assert (holder.mean_gpus, holder.most_gpus) == pytest.approx((sum(held) / MINUTES, max(held)))
        levels = [level(held, share) for share in (0.5, 0.95, 0.99)]
        assert [holder.median_gpus, holder.p95_gpus, holder.p99_gpus] == levels


@pytest.mark.slow
def test_evaluations_are_known_by_their_names(advice: Advice) -> None:
    jobs, _ = story()
    evaluations = [job for job in jobs if job.name.startswith("eval")]
    held = sum(job.gpus * len(job.nodes) * (job.ended - job.began) / 60 for job in evaluations)
    found = advice.evaluations
    assert (found.jobs, found.held_gpu_hours) == pytest.approx((len(evaluations), held))
    # Nothing was measured: what is saved is what was published for such jobs, of all that did not fail.
    assert found.assumed_unused_gpu_hours == pytest.approx(0.485 * found.unobserved_gpu_hours)
    assert 0 < found.unobserved_gpu_hours <= held
    assert found.saved_gpu_hours == found.assumed_unused_gpu_hours


def gpulake(config: Config, *arguments: str) -> Any:
    answer = CliRunner().invoke(root, ["advise", *arguments, "--lake", str(config.lake)])
    assert answer.exit_code == 0, (answer.output, answer.exception)
    return answer


@pytest.mark.slow
def test_the_commands_print_what_was_found(config: Config) -> None:
    text = gpulake(config, "cluster").stdout
    assert text.startswith("tiger: failures of hardware and infrastructure, by the GPUs of a job\n")
    assert "a checkpoint takes 1 min (assumed), a restart takes 10 min (assumed)" in text
    document = json.loads(gpulake(config, "cluster", "--restart", "5m", "--json").stdout)
    assert document["restart"] == {"seconds": 300.0, "times": 0, "basis": "given"}
    assert [plan["gpus"] for plan in document["plans"]] == [8, 32, 128, 512, 2048]
    job = json.loads(gpulake(config, "job", "--gpus", "64", "--days", "7", "--checkpoint", "1h", "--json").stdout)
    expected = job_advice(Flow(config), "tiger", 64, 7 * 86_400, timedelta(hours=1))
    assert (job["seconds"], job["failures"]) == (pytest.approx(expected.seconds), pytest.approx(expected.failures))
    assert job["interval_seconds"] == 3600
    assert "64 GPUs for 7 days of work" in gpulake(config, "job", "--gpus", "64", "--days", "7").stdout
    assert "tiger: " in gpulake(config, "runtimes").stdout
    with Lake(config).reading() as reader:
        assert {row["step"] for row in reader.rows("FROM runs")} >= {"advise"}


def measured(failures: int, gpu_hours: float) -> Measured:
    rate = rate_of(512, 10, gpu_hours, failures)
    return Measured(
        [rate], rate_of(0, 10, gpu_hours, failures), Overhead(60, 9, "measured"), Overhead(600, 9, "measured")
    )


def test_a_plan_is_young_s_and_daly_s_interval_at_the_measured_rate() -> None:
    found = measured(failures=50, gpu_hours=1e6)
    plan = planned(found, 512)
    assert plan is not None
    mttf = 3600 * 1e6 / (50 * 512)
    assert plan.mttf_seconds == pytest.approx(mttf)
    low, high = poisson_interval(50)
    assert (plan.mttf_low_seconds, plan.mttf_high_seconds) == pytest.approx((mttf * 50 / high, mttf * 50 / low))
    assert plan.goodput_ratio == goodput_ratio(mttf, 60, 600, best_interval(mttf, 60))
    assert plan.goodput_low_ratio < plan.goodput_ratio < plan.goodput_high_ratio
    job = advise_job(found, "c", 512, 86_400.0, interval=None)
    assert job.seconds == pytest.approx(86_400 / plan.goodput_ratio)
    assert job.failures == pytest.approx(86_400 / plan.goodput_ratio / mttf)


def test_too_few_failures_are_said_to_be_too_few() -> None:
    found = measured(failures=4, gpu_hours=1000.0)
    assert planned(found, 64) is None
    job = advise_job(found, "c", 64, 3600.0, interval=None)
    assert (job.plan, job.seconds) == (None, None)
    assert job.failures_at_most == pytest.approx(poisson_interval(4)[1] * 64 / 1000)


def test_a_size_with_few_failures_takes_the_rate_of_all_sizes() -> None:
    small, large = rate_of(8, 100, 1e5, 40), rate_of(512, 2, 1e4, 1)
    found = Measured([small, large], rate_of(0, 102, 1.1e5, 41), Overhead(60, 0, "given"), Overhead(600, 0, "given"))
    assert found.rate_of(16) is small
    assert found.rate_of(64) is found.rate_of(1024) is found.overall
    plan = planned(found, 1024)
    assert plan is not None
    assert not plan.is_rate_of_size
    job = advise_job(found, "c", 100_000, 1e9, interval=None)
    assert job.seconds_without_checkpoints is None
