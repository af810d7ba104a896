"""The text of a phase of a training run: what was measured, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpulake.core.words import span
from gpulake.detect.series import Bools, Floats, Series
from gpulake.detect.training import BUSY, NEEDED, Kind, Phase, Steps

REMEDIES: dict[Kind, str] = {
    "leak": "look for tensors kept from step to step (losses without .item(), growing lists or caches)",
    "memory_cliff": "make the batch or the sequence smaller, or checkpoint activations, before it runs out of memory",
    "starved": "give the data loader more workers and prefetching, or put the data on faster storage",
    "checkpoint_storm": "save less often, asynchronously or to faster storage; see what the host reads or writes",
    "cpu_pressure": "see what else runs on the host, bind the job to its own cores, give the loader fewer threads",
    "stopped": "look for a signal or a debugger, a hung collective or a mount that does not answer; take py-spy dump",
    "neighbour": "see who else has processes on the GPU (nvidia-smi), and ask the scheduler for it alone",
    "small_batch": "raise the batch size, or see whether the last batches of the data are small",
}


@dataclass(frozen=True)
class Numbers:
    """Means over some time; NaN: not measured."""

    gpu: float
    cpu: float
    step_ms: float


def detail(phase: Phase, telemetry: Series, steps: Steps | None, phases: Sequence[Phase]) -> str:
    """A sentence without its full stop."""
    is_here = _between(telemetry, phase)
    memory = _column(telemetry, "memory_used_ratio")[is_here]
    lasted = span((phase.end_ms - phase.begin_ms) / 1000)
    if phase.kind == "leak":
        return f"GPU memory grew from {_share(memory[0])} to {_share(np.nanmax(memory))} although the run had settled"
    if phase.kind == "memory_cliff":
        return f"GPU memory was {_share(np.nanmax(memory))} full"
    now = _numbers(telemetry, steps, is_here)
    if phase.kind == "starved":
        held = _share(float(np.nanmedian(memory)))
        return f"the GPU was busy {_share(now.gpu)} of the time while {held} of its memory was held"
    usual = _numbers(telemetry, steps, _calm(telemetry, phase, phases))
    host = "" if np.isnan(now.cpu) else f", the host's cores {_share(now.cpu)} ({_share(usual.cpu)} before)"
    gpu = f"the GPU was busy {_share(now.gpu)} of the time ({_share(usual.gpu)} before)"
    step = f"steps took {_took(now.step_ms)} ({_took(usual.step_ms)} before)"
    if phase.kind in ("stopped", "checkpoint_storm"):
        return f"hardly a step ended for {lasted} (each took {_took(usual.step_ms)} before); {gpu}{host}"
    return f"{step}; {gpu}{host}"


def _between(telemetry: Series, phase: Phase) -> Bools:
    return np.asarray((telemetry.times_ms >= phase.begin_ms) & (telemetry.times_ms <= phase.end_ms))


def _calm(telemetry: Series, phase: Phase, phases: Sequence[Phase]) -> Bools:
    """The times before it that belong to no phase."""
    is_calm = (telemetry.times_ms < phase.begin_ms) & (_column(telemetry, "gpu_util_ratio") > BUSY)
    for other in phases:
        is_calm &= ~_between(telemetry, other)
    return np.asarray(is_calm)


def _numbers(telemetry: Series, steps: Steps | None, is_meant: Bools) -> Numbers:
    step = np.nan
    if steps is not None and is_meant.any():
        # A step counts where the last sample before its end does.
        places = np.searchsorted(telemetry.times_ms, steps.ended_ms, side="right") - 1
        took = steps.took_ms[(places >= 0) & is_meant[np.maximum(places, 0)]]
        step = float(np.median(took)) if len(took) else np.nan
    gpu, cpu = (_mean(_column(telemetry, name)[is_meant]) for name in ("gpu_util_ratio", "cpu_util_ratio"))
    return Numbers(gpu, cpu, step)


def _column(telemetry: Series, name: str) -> Floats:
    return telemetry.values[:, NEEDED.index(name)]


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def _share(ratio: float) -> str:
    return "an unknown share" if np.isnan(ratio) else f"{ratio:.0%}" if ratio >= 0.1 else f"{ratio:.1%}"


def _took(milliseconds: float) -> str:
    if np.isnan(milliseconds):
        return "an unknown time"
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"
