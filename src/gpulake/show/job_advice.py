"""What to change about a job when it is submitted again, with the figures that this rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpulake.core.words import amount, count, share, span
from gpulake.show.advice import HEADROOM

if TYPE_CHECKING:
    from gpulake.show.job_report import Asked, GpuUse, Used

LOW_RATIO = 0.5  # with less than this share in use, less is enough
FULL_RATIO = 0.95
LIMIT_STEP_SECONDS = 900
LEAST_LIMIT_SECONDS = 1800
LEAST_RUN_SECONDS = 600  # a job that ended earlier does not show how many GPUs it needs
GIB = 1 << 30


@dataclass(frozen=True)
class Change:
    what: str  # gpus, time_limit, cores or memory
    advice: str
    why: str


def changes(
    status: str, ran_seconds: float | None, asked: Asked, used: Used, buckets: Mapping[str, float],
    gpus: Sequence[GpuUse], idle_ratio: float, was_out_of_memory: bool,
) -> Iterator[Change]:  # fmt: skip
    """Only of what was measured."""
    if ran_seconds is None or ran_seconds >= LEAST_RUN_SECONDS:
        yield from _gpus(asked, used, buckets, gpus, idle_ratio)
    yield from _time_limit(status, ran_seconds, asked)
    yield from _cores(asked, used)
    yield from _memory(asked, used, was_out_of_memory)


def _gpus(
    asked: Asked, used: Used, buckets: Mapping[str, float], gpus: Sequence[GpuUse], idle_ratio: float
) -> Iterator[Change]:
    idle = [gpu for gpu in gpus if gpu.busy_ratio is not None and gpu.busy_ratio < idle_ratio]
    if buckets["idle"] > 0 and buckets["idle"] >= LOW_RATIO * sum(buckets.values()):
        why = f"{amount(buckets['idle'])} of {amount(sum(buckets.values()))} GPU-hours were idle"
        yield Change("gpus", "end it when it is done with its GPUs, or run it without", why)
    elif idle and len(idle) < len(gpus):
        names = ", ".join(f"{gpu.node} {gpu.gpu_id if gpu.gpu_index is None else gpu.gpu_index}" for gpu in idle[:4])
        why = f"{len(idle)} of {len(gpus)} did nothing: {names}"
        yield Change("gpus", f"ask for {count(len(gpus) - len(idle), 'GPU')} in place of {len(gpus)}", why)
    elif asked.gpus and used.gpus is not None and used.gpus * HEADROOM < LOW_RATIO * asked.gpus:
        enough = used.gpus * HEADROOM
        fewer = math.ceil(enough) if asked.gpus > 1 else math.ceil(100 * enough) / 100
        why = f"it used {used.gpus:.2f} of them on average, {share(used.gpus, asked.gpus)}"
        yield Change("gpus", f"ask for {fewer:g} of a GPU in place of {asked.gpus:g}" if fewer < 1 else
                     f"ask for {count(int(fewer), 'GPU')} in place of {asked.gpus:g}", why)  # fmt: skip


def _time_limit(status: str, ran_seconds: float | None, asked: Asked) -> Iterator[Change]:
    limit = asked.limit_seconds
    if limit is None or ran_seconds is None:
        return
    if status == "timeout":
        why = f"it reached its limit of {span(limit)}"
        yield Change("time_limit", "ask for more time, or save checkpoints and go on from the last one", why)
    elif status == "succeeded" and limit >= LEAST_LIMIT_SECONDS and ran_seconds * HEADROOM < LOW_RATIO * limit:
        enough = math.ceil(max(ran_seconds * HEADROOM, 1) / LIMIT_STEP_SECONDS) * LIMIT_STEP_SECONDS
        why = f"it ran {span(ran_seconds)}, {share(ran_seconds, limit)} of its limit; short jobs start earlier"
        yield Change("time_limit", f"ask for {span(enough)} in place of {span(limit)}", why)


def _cores(asked: Asked, used: Used) -> Iterator[Change]:
    if asked.cores and used.cores is not None and used.cores * HEADROOM < LOW_RATIO * asked.cores and asked.cores > 1:
        enough = max(math.ceil(used.cores * HEADROOM), 1)
        why = f"it used {used.cores:.1f} cores on average, {share(used.cores, asked.cores)}"
        yield Change("cores", f"ask for {count(enough, 'core')} in place of {asked.cores:g}", why)


def _memory(asked: Asked, used: Used, was_out_of_memory: bool) -> Iterator[Change]:
    peak, most = used.peak_memory_bytes, asked.memory_bytes
    if was_out_of_memory:  # what was sampled need not have the peak
        more = f"ask for more than {most / GIB:.0f} GiB of memory" if most else "ask for more memory"
        yield Change("memory", more, "it was killed for want of memory")
        return
    if peak is None or not most:
        return
    why = f"at its peak it used {peak / GIB:.1f} GiB, {share(peak, most)}"
    if peak >= FULL_RATIO * most:
        yield Change("memory", f"ask for more than {most / GIB:.0f} GiB of memory", why)
    elif peak * HEADROOM < LOW_RATIO * most:
        enough = max(math.ceil(peak * HEADROOM / GIB), 1)
        yield Change("memory", f"ask for {enough} GiB of memory in place of {most / GIB:.0f}", why)
