"""The identity run: the recorded starts and ends, played as they are, must not need more GPUs than there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpulake.replay.kernel.arrays import GPU

if TYPE_CHECKING:
    from gpulake.replay.past import Past

MOST = 5


@dataclass(frozen=True)
class Conflict:
    where: str  # GPU type, or all of the cluster
    gpus: int
    most_held: float
    excess_gpu_hours: float
    words: str


def conflicts(past: Past) -> tuple[float, tuple[Conflict, ...]]:
    """The share of held GPU time beyond what there is, and where: by GPU type, since that is what jobs ask for."""
    found, excess, held_total = [], 0.0, 0.0
    types = np.array(past.machines.types)
    for kind in np.unique(past.gpu_type):
        is_type = types == kind
        gpus = int(past.machines.gpus[is_type if is_type.any() else np.ones(len(types), bool)].sum())
        chosen = past.gpu_type == kind if is_type.any() else np.ones(len(past), bool)
        milli = past.trace.milli[chosen]
        start, end = past.start[chosen], np.minimum(past.end[chosen], past.until)
        at = np.concatenate([start, end])
        change = np.concatenate([milli, -milli])
        order = np.lexsort([change, at])
        level = np.cumsum(change[order])
        seconds = np.diff(at[order], append=at[order][-1:])
        held_total += float((level * seconds).sum())
        over = np.maximum(0, level - gpus * GPU)
        if (beyond := float((over * seconds).sum())) > 0:
            hours, most = beyond / GPU / 3600, float(level.max()) / GPU
            words = (
                f"{kind or 'the cluster'}: {most:g} GPUs held at once, {gpus} known, {hours:,.1f} GPU-hours too many"
            )
            found.append(Conflict(str(kind), gpus, most, hours, words))
            excess += beyond
        if not is_type.any():
            break
    found.sort(key=lambda one: -one.excess_gpu_hours)
    return (excess / held_total if held_total else 0.0), tuple(found[:MOST])
