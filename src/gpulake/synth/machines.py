"""Machines: the published inventory, at the scale of the trace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.synth.facts import TYPES


@dataclass(frozen=True)
class Machines:
    """One entry per machine; the machines of a GPU type are neighbours."""

    gpu_type: NDArray[np.int8]
    cap_cpu: NDArray[np.int32]
    cap_mem: NDArray[np.int32]
    cap_gpu: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.gpu_type)

    def of_type(self, code: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.gpu_type == code)

    def gpus_by_type(self) -> NDArray[np.int64]:
        return np.bincount(self.gpu_type, weights=self.cap_gpu, minlength=len(TYPES)).astype(np.int64)


def inventory(jobs: int) -> Machines:
    """Machines in proportion to the jobs, so that load looks alike at every scale, and at least one of each class."""
    scale = jobs / published()["counts"]["jobs"]
    classes = published()["machines"]
    share = [entry["count"] * scale for entry in classes]
    # Rounding one and a half machines down would leave a third too few.
    count = [round(exact) if exact >= 2 else math.ceil(exact) for exact in share]

    def column(key: str) -> NDArray[np.int32]:
        return np.repeat(np.array([entry[key] for entry in classes], dtype=np.int32), count)

    types = np.array([TYPES.index(entry["gpu_type"]) for entry in classes], dtype=np.int8)
    return Machines(np.repeat(types, count), column("cap_cpu"), column("cap_mem"), column("cap_gpu"))
