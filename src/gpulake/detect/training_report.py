"""The report of a training run: the series of each GPU, its phases in words, and what limits them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from gpulake.core.training import TrainingGpu, TrainingPhase
from gpulake.detect.phase_text import REMEDIES, detail
from gpulake.detect.series import Floats, Ints, Series, usual_interval_ms, utc
from gpulake.detect.training import NEEDED, Steps, find_phases

COARSE_MS = 5_000
MOST_SAMPLES = 100_000  # of one GPU: more than a day at one a second
NAMES = ("GPU busy", "host CPU busy", "GPU memory used")  # in the order of NEEDED
GpuRow = tuple[float, float | None, float | None]  # seconds of the epoch, busy ratio, ratio of memory used
HostRow = tuple[float, float | None]  # seconds of the epoch, CPU busy ratio


def gpu_series(gpu: Sequence[GpuRow], host: Sequence[HostRow]) -> Series:
    """A row a sample of the GPU, with the latest sample of its host. The last of several at one time counts."""
    by_time = {round(at * 1000): (_or_nan(busy), np.nan, _or_nan(memory)) for at, busy, memory in gpu}
    times = np.array(sorted(by_time), dtype=np.int64)
    table = np.array([by_time[time] for time in times.tolist()], dtype=np.float64)
    table[:, 1] = _host(times, host)
    return Series("", NEEDED, times, table, usual_interval_ms(times))


def steps_of(taken: Sequence[tuple[float, float]]) -> Steps:
    ended = np.array([round(ended * 1000) for ended, _ in taken], dtype=np.int64)
    return Steps(ended, np.array([1000.0 * took for _, took in taken], dtype=np.float64))


def report_gpu(node: str, gpu: str, name: str, series: Series, steps: Steps) -> TrainingGpu:
    phases = find_phases(series, steps)
    return TrainingGpu(
        node=node,
        gpu=gpu,
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


def series_notes(series: Collection[Series]) -> Iterator[str]:
    if any(_is_thinned(one) for one in series):
        yield "There are very many samples; older ones were thinned out: name a shorter time with --since and --until."
    coarse = max(one.interval_ms for one in series)
    if coarse > COARSE_MS:
        yield f"Samples are {coarse / 1000:.0f} s apart: phases that last only a few samples are not seen."
    lacking = {name for one in series for place, name in enumerate(NAMES) if np.isnan(one.values[:, place]).all()}
    if lacking:
        yield f"Not in the telemetry of every GPU: {', '.join(sorted(lacking))}."


def _host(times: Ints, host: Sequence[HostRow]) -> Floats:
    known = {round(at * 1000): busy for at, busy in host if busy is not None}
    if not known:
        return np.full(len(times), np.nan)
    seen = np.array(sorted(known), dtype=np.int64)
    busy = np.array([known[time] for time in seen.tolist()], dtype=np.float64)
    places = np.searchsorted(seen, times, side="right") - 1
    age = times - seen[np.maximum(places, 0)]
    is_fresh = (places >= 0) & (age <= 3 * usual_interval_ms(seen))
    return np.asarray(np.where(is_fresh, busy[np.maximum(places, 0)], np.nan))


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _is_thinned(series: Series) -> bool:
    """Thinning drops every other sample of the older half, repeatedly."""
    half = len(series) // 2
    older, newer = (usual_interval_ms(times) for times in (series.times_ms[:half], series.times_ms[half:]))
    return len(series) > MOST_SAMPLES // 2 and older >= 2 * newer
