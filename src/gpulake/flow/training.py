"""Training runs: telemetry and step times are read by diagnose, and examined GPU by GPU by detect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpulake.core.errors import InputError, UsageError
from gpulake.core.training import TrainingReport, TrainingStep
from gpulake.detect.series import Series, utc
from gpulake.detect.training_report import MOST_SAMPLES, gpu_series, report_gpu, series_notes, steps_of
from gpulake.diagnose.api import check_zone
from gpulake.diagnose.steps import read_steps
from gpulake.diagnose.telemetry import Samples, Window, read_samples, samples_of_job
from gpulake.diagnose.telemetry.scene import Scene
from gpulake.diagnose.training_runs import TrainingRun, find_run, said
from gpulake.lake import Lake


@dataclass(frozen=True)
class JobOfLake:
    """The telemetry in the lake of the nodes of a job."""

    lake: Lake
    job_id: str
    cluster_id: str | None = None


@dataclass(frozen=True)
class RunOfLake:
    """A training run in the lake, by its name or its job."""

    lake: Lake
    name: str
    cluster_id: str | None = None


def look_at_training(
    telemetry: Path | JobOfLake | None,
    steps: Path | RunOfLake | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    time_zone: str = "UTC",
) -> TrainingReport:
    """From a file or a folder of telemetry, or the lake's telemetry of a job; and from a file of step times, a log, or
    a run of the lake, which also names the job. Times without a zone are in time_zone."""
    check_zone(time_zone)
    run = _run(steps) if isinstance(steps, RunOfLake) else None
    if telemetry is None and isinstance(steps, RunOfLake) and run is not None and run.job_id is not None:
        telemetry = JobOfLake(steps.lake, run.job_id, run.cluster_id)
    window = Window(*(moment.timestamp() if moment is not None else None for moment in (since, until)))
    try:
        if isinstance(telemetry, JobOfLake):
            samples = _of_job(telemetry, window)
        else:
            samples = read_samples([telemetry], window, time_zone, MOST_SAMPLES) if telemetry is not None else Samples()
        taken, bad_rows = read_steps(steps, time_zone) if isinstance(steps, Path) else (run.steps if run else [], 0)
    except InputError as error:
        raise UsageError(error.message, error.hint) from error
    if run is not None and not samples.gpus:
        return _without_gpus(run, [step for step in taken if window.holds(step[0])])
    if not samples.gpus:
        raise UsageError(*_no_gpus(telemetry, samples))
    taken = [step for step in taken if window.holds(step[0])]
    series = {subject: _series(samples, *subject) for subject in samples.gpus}
    if isinstance(steps, Path):
        _check_overlap(steps, [ended for ended, _ in taken], series.values())
    names, known = _names(samples), steps_of(taken)
    return TrainingReport(
        gpus=tuple(report_gpu(*subject, names[subject], one, known) for subject, one in series.items()),
        steps=_told(taken),
        parts=run.parts if run else (),
        notes=(*(said(run) if run else ()), *_notes(samples, series.values(), bad_rows, steps is not None)),
    )


def _run(wanted: RunOfLake) -> TrainingRun:
    if wanted.lake.open().builds.current() is None:
        raise UsageError(f"the lake at {wanted.lake.root} has no build yet", "run: gpulake build")
    with wanted.lake.reading() as reader:
        found = find_run(reader, wanted.name, wanted.name, wanted.cluster_id)
    if found is None:
        raise UsageError(
            f"the lake has no training run {wanted.name!r}, nor one of a job of that id",
            "see: gpulake sql 'select run_id, job_id from silver_training_runs'; how they land is in docs/training.md",
        )
    return found


def _without_gpus(run: TrainingRun, taken: list[tuple[float, float]]) -> TrainingReport:
    job = f"job {run.job_id}" if run.job_id is not None else "its job, which is not known"
    note = f"There are no samples of GPUs of {job}: only what the run logged was examined."
    return TrainingReport(gpus=(), steps=_told(taken), parts=run.parts, notes=(*said(run), note))


def _told(taken: list[tuple[float, float]]) -> tuple[TrainingStep, ...]:
    return tuple(TrainingStep(utc(round(ended * 1000)), took) for ended, took in taken)


def _series(samples: Samples, node: str, gpu: str) -> Series:
    rows = [
        (
            one.at_seconds,
            one.busy_ratio,
            one.memory_used_bytes / one.memory_total_bytes
            if one.memory_used_bytes is not None and one.memory_total_bytes
            else None,
        )
        for one in samples.gpus[node, gpu]
    ]
    return gpu_series(rows, [(one.at_seconds, one.cpu_busy_ratio) for one in samples.hosts.get(node, ())])


def _of_job(job: JobOfLake, window: Window) -> Samples:
    if job.lake.open().builds.current() is None:
        raise UsageError(f"the lake at {job.lake.root} has no build yet", "run: gpulake build")
    with job.lake.reading() as reader:
        return samples_of_job(reader, job.job_id, job.cluster_id, window, MOST_SAMPLES)


def _names(samples: Samples) -> dict[tuple[str, str], str]:
    """Short names; in full where two would be the same."""
    scene = Scene(samples, samples, 0.0, 0.0, is_timed=False)
    short = {subject: scene.gpu_name(*subject) for subject in samples.gpus}
    often = Counter(short.values())
    return {
        (node, gpu): name if often[name] == 1 else f"{gpu} of {node}" if node else gpu
        for (node, gpu), name in short.items()
    }


def _no_gpus(telemetry: Path | JobOfLake | None, samples: Samples) -> tuple[str, str]:
    if isinstance(telemetry, JobOfLake):
        return (
            f"the lake has no samples of GPUs of job {telemetry.job_id!r} in that time",
            "see whether it is in silver_jobs, and its nodes and their samples in silver_gpu_samples: gpulake sql",
        )
    if samples.first_seconds is None or samples.last_seconds is None:
        return f"{telemetry} has no samples of GPUs", "see docs/telemetry.md for what a GPU's telemetry may look like"
    first, last = (utc(round(1000 * moment)) for moment in (samples.first_seconds, samples.last_seconds))
    return (
        f"{telemetry} has no samples of GPUs in that time",
        f"it covers {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC",
    )


def _check_overlap(steps: Path, ended: list[float], series: Collection[Series]) -> None:
    begin = min(int(one.times_ms[0]) for one in series)
    end = max(int(one.times_ms[-1]) for one in series)
    if not any(begin <= 1000 * moment <= end for moment in ended):
        raise UsageError(
            f"no step of {steps} ended while the telemetry was taken, {utc(begin):%Y-%m-%d %H:%M:%S} to "
            f"{utc(end):%Y-%m-%d %H:%M:%S} UTC",
            "name the zone of times without one with --time-zone, or give the steps of the same run",
        )


def _notes(samples: Samples, series: Collection[Series], bad_rows: int, has_steps: bool) -> Iterator[str]:
    yield from samples.notes
    if bad_rows:
        yield f"{bad_rows:,} rows of the steps could not be read and were left out."
    if not has_steps:
        yield "Without --steps only leaks, memory cliffs and starved GPUs can be detected."
    yield from series_notes(series)
