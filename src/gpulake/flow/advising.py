"""Advice from the last complete build: each takes the name of a cluster, or the only one there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulake.core.types import DurationScore
    from gpulake.flow import Flow
    from gpulake.lake import LakeReader
    from gpulake.replay.advice import Advice, JobAdvice
    from gpulake.replay.alibaba_simulator import PolicyOutcome, SimulatorJob
    from gpulake.replay.predictions import CalibrationRow


@contextmanager
def advising(flow: Flow, cluster: str | None, step: str = "advise") -> Iterator[tuple[LakeReader, str]]:
    from gpulake.replay.from_lake import choose, clusters

    flow.lake.open()
    with flow.step(step, is_reader=True) as detail, flow.lake.reading() as reader:
        chosen = choose(cluster, clusters(reader)[0])
        detail["cluster"] = chosen
        yield reader, chosen


def predicted_run_times(flow: Flow, cluster: str | None) -> tuple[str, list[DurationScore], list[CalibrationRow]]:
    """How well run times could have been predicted at submission, and how predictions compare with what came."""
    from gpulake.replay.predictions import calibration, predict, read_tasks, scores

    with advising(flow, cluster) as (reader, chosen):
        tasks = read_tasks(reader, chosen)
        predicted = predict(tasks)
        return chosen, scores(tasks, predicted), calibration(tasks, predicted)


def export_simulator_jobs(flow: Flow, cluster: str | None, path: Path) -> int:
    """The tasks of a cluster as the CSV of Alibaba's simulator; how many there are."""
    from gpulake.replay.exports.alibaba import simulator_rows, write_csv

    with advising(flow, cluster, "export") as (reader, chosen):
        rows = simulator_rows(reader, chosen)
        write_csv(rows, path)
    return len(rows)


def export_swf(flow: Flow, cluster: str | None, processors: str, path: Path) -> dict[str, Any]:
    """The jobs of a cluster in the Standard Workload Format; what was written and left out."""
    from gpulake.replay.exports.swf import write_swf

    with advising(flow, cluster, "export") as (reader, chosen):
        return write_swf(reader, chosen, processors, path)


def simulator_jobs(flow: Flow, cluster: str | None) -> tuple[list[SimulatorJob], int]:
    """The same, not written to a file; and the GPUs of the cluster."""
    from gpulake.replay.alibaba_simulator import job_of
    from gpulake.replay.exports.alibaba import simulator_rows
    from gpulake.replay.predictions import SQL

    with advising(flow, cluster) as (reader, chosen):
        jobs = [job_of({name: str(value) for name, value in row.items()}) for row in simulator_rows(reader, chosen)]
        (capacity,) = reader.rows(SQL["capacity"], cluster=chosen)
    return jobs, int(capacity["gpus"])


def compared_policies(jobs: Sequence[SimulatorJob], policies: Sequence[str], gpus: int) -> list[PolicyOutcome]:
    from gpulake.replay.alibaba_simulator import simulate

    return [simulate(jobs, policy, gpus) for policy in policies]


def cluster_advice(
    flow: Flow, cluster: str | None, checkpoint: timedelta | None = None, restart: timedelta | None = None
) -> Advice:
    """Checkpoints, spares, reservations and evaluations. What a checkpoint and a restart take, unless measured."""
    from gpulake.replay.advice import advice

    with advising(flow, cluster) as (reader, chosen):
        return advice(reader, chosen, _seconds(checkpoint), _seconds(restart))


def job_advice(
    flow: Flow,
    cluster: str | None,
    gpus: int,
    work_seconds: float,
    interval: timedelta | None = None,
    checkpoint: timedelta | None = None,
    restart: timedelta | None = None,
) -> JobAdvice:
    """A job that is planned: so many GPUs for so much work, with checkpoints at an interval or at the best one."""
    from gpulake.replay.advice import advise_job, measured

    with advising(flow, cluster) as (reader, chosen):
        found = measured(reader, chosen, _seconds(checkpoint), _seconds(restart))
    return advise_job(found, chosen, gpus, work_seconds, _seconds(interval))


def _seconds(given: timedelta | None) -> float | None:
    return None if given is None else given.total_seconds()
