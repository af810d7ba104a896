"""What befell a training run: telemetry and step times from files, looked at GPU by GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from gpulake.core.errors import InputError, UsageError
from gpulake.core.training import TrainingGpu, TrainingPhase, TrainingReport, TrainingStep
from gpulake.detect.phase_text import REMEDIES, detail
from gpulake.detect.series import Floats, Ints, Series, usual_interval_ms, utc
from gpulake.detect.training import NEEDED, Steps, find_phases
from gpulake.diagnose.api import check_zone
from gpulake.diagnose.steps import read_steps
from gpulake.diagnose.telemetry import Samples, Window, read_samples, samples_of_job
from gpulake.diagnose.telemetry.samples import GpuSample, HostSample
from gpulake.diagnose.telemetry.scene import Scene
from gpulake.lake import Lake

MOST_SAMPLES = 100_000  # of one GPU: a day and more at one a second
COARSE_MS = 5_000
NAMES = ("GPU busy", "host CPU busy", "GPU memory used")  # in the order of NEEDED


@dataclass(frozen=True)
class JobOfLake:
    """Telemetry that the lake has of the nodes of a job."""

    lake: Lake
    job_id: str
    cluster_id: str | None = None


def look_at_training(
    telemetry: Path | JobOfLake,
    steps: Path | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    time_zone: str = "UTC",
) -> TrainingReport:
    """Of a file or a folder of telemetry, or of what the lake has of a job; and of a file of step times or a log. Times
    without a zone are of time_zone."""
    check_zone(time_zone)
    window = Window(*(moment.timestamp() if moment is not None else None for moment in (since, until)))
    try:
        if isinstance(telemetry, JobOfLake):
            samples = _of_job(telemetry, window)
        else:
            samples = read_samples([telemetry], window, time_zone, MOST_SAMPLES)
        taken, bad_rows = read_steps(steps, time_zone) if steps is not None else ([], 0)
    except InputError as error:
        raise UsageError(error.message, error.hint) from error
    if not samples.gpus:
        raise UsageError(*_no_gpus(telemetry, samples))
    own = [step for step in taken if window.holds(step[0])]
    series = {subject: _series(found, samples.hosts.get(subject[0], ())) for subject, found in samples.gpus.items()}
    if steps is not None:
        _check_overlap(steps, [ended for ended, _ in own], series.values())
    known = Steps(np.array([round(ended * 1000) for ended, _ in own], dtype=np.int64), _floats(took for _, took in own))
    names = _names(samples)
    return TrainingReport(
        gpus=tuple(_gpu(subject, names[subject], one, known) for subject, one in series.items()),
        steps=tuple(TrainingStep(utc(round(ended * 1000)), took) for ended, took in own),
        notes=tuple(_notes(samples, series, bad_rows, steps is not None)),
    )


def _of_job(job: JobOfLake, window: Window) -> Samples:
    if job.lake.open().builds.current() is None:
        raise UsageError(f"the lake at {job.lake.root} has no build yet", "run: gpulake build")
    with job.lake.reading() as reader:
        return samples_of_job(reader, job.job_id, job.cluster_id, window, MOST_SAMPLES)


def write_training_plot(report: TrainingReport, path: Path) -> None:
    from gpulake.show.training_page import write_training

    write_training(report, path)


def _floats(seconds: Iterator[float]) -> Floats:
    return np.array([1000.0 * each for each in seconds], dtype=np.float64)


def _series(samples: Sequence[GpuSample], hosts: Sequence[HostSample]) -> Series:
    """A row a sample of the GPU; its host is as it was last seen. Of several at one time the last counts."""
    by_time = {round(sample.at_seconds * 1000): sample for sample in samples}
    times = np.array(sorted(by_time), dtype=np.int64)
    values = [
        (_known(sample.busy_ratio), np.nan, _filled(sample)) for sample in (by_time[time] for time in times.tolist())
    ]
    table = np.array(values, dtype=np.float64)
    table[:, 1] = _host(times, hosts)
    return Series("", NEEDED, times, table, usual_interval_ms(times))


def _host(times: Ints, hosts: Sequence[HostSample]) -> Floats:
    known = {round(host.at_seconds * 1000): host.cpu_busy_ratio for host in hosts if host.cpu_busy_ratio is not None}
    if not known:
        return np.full(len(times), np.nan)
    seen = np.array(sorted(known), dtype=np.int64)
    busy = np.array([known[time] for time in seen.tolist()], dtype=np.float64)
    places = np.searchsorted(seen, times, side="right") - 1
    age = times - seen[np.maximum(places, 0)]
    is_fresh = (places >= 0) & (age <= 3 * usual_interval_ms(seen))
    return np.asarray(np.where(is_fresh, busy[np.maximum(places, 0)], np.nan))


def _known(value: float | None) -> float:
    return np.nan if value is None else value


def _filled(sample: GpuSample) -> float:
    if sample.memory_used_bytes is None or not sample.memory_total_bytes:
        return np.nan
    return sample.memory_used_bytes / sample.memory_total_bytes


def _gpu(subject: tuple[str, str], name: str, series: Series, steps: Steps) -> TrainingGpu:
    phases = find_phases(series, steps)
    return TrainingGpu(
        node=subject[0],
        gpu=subject[1],
        name=name,
        times=tuple(utc(time) for time in series.times_ms.tolist()),
        tracks={
            track: tuple(None if value != value else value for value in series.values[:, place].tolist())
            for place, track in enumerate(NAMES)
        },
        phases=tuple(
            TrainingPhase(
                phase.kind,
                utc(phase.begin_ms),
                utc(phase.end_ms),
                detail(phase, series, steps, phases),
                REMEDIES[phase.kind],
            )
            for phase in phases
        ),
    )


def _is_thinned(series: Series) -> bool:
    """Of the older half every other one goes, and again."""
    half = len(series) // 2
    older, newer = (usual_interval_ms(times) for times in (series.times_ms[:half], series.times_ms[half:]))
    return len(series) > MOST_SAMPLES // 2 and older >= 2 * newer


def _names(samples: Samples) -> dict[tuple[str, str], str]:
    """As people call them; in full where two would have one name."""
    scene = Scene(samples, samples, 0.0, 0.0, is_timed=False)
    short = {subject: scene.gpu_name(*subject) for subject in samples.gpus}
    often = Counter(short.values())
    return {
        (node, gpu): name if often[name] == 1 else f"{gpu} of {node}" if node else gpu
        for (node, gpu), name in short.items()
    }


def _no_gpus(telemetry: Path | JobOfLake, samples: Samples) -> tuple[str, str]:
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
        f"it speaks of {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC",
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


def _notes(samples: Samples, series: dict[tuple[str, str], Series], bad_rows: int, has_steps: bool) -> Iterator[str]:
    yield from samples.notes
    if bad_rows:
        yield f"{bad_rows:,} rows of the steps could not be read and were left out."
    if not has_steps:
        yield "Without --steps only leaks, memory cliffs and starved GPUs can be told."
    if any(_is_thinned(one) for one in series.values()):
        yield "Of very many samples older ones were thinned out: name a shorter time with --since and --until."
    coarse = max(one.interval_ms for one in series.values())
    if coarse > COARSE_MS:
        yield f"Samples are {coarse / 1000:.0f} s apart: what lasts less than a few of them is not seen."
    lacking = {
        name for one in series.values() for place, name in enumerate(NAMES) if np.isnan(one.values[:, place]).all()
    }
    if lacking:
        yield f"Not in the telemetry of every GPU: {', '.join(sorted(lacking))}."
