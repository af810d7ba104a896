"""Advice: the changes that would save most, computed from what jobs held and used, with jobs that prove them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from gpulake.core.config import GpuType
from gpulake.core.gpu_models import matching, same_models
from gpulake.core.words import amount, inferred, ordinal

LEAST_SAVED_GPU_HOURS = 1.0
MOST_ADVICE = 3
MOST_PROOFS = 3
HEADROOM = 1.2  # on top of the mean use
LEAST_FAILURES = 3
CHECKPOINT_HOURS = 1.0
LOW_USE = 0.25
SHARED_USE = 0.5
LEAST_RECURRENCES = 5
# Fits beside a runtime into the 16 GiB of the smaller types.
LESSER_GIBIBYTES = 14
SCARCE_MODELS = (
    *("V100", "V100 32GB", "A100", "A100 40GB", "A100 80GB", "A100 PCIe 40GB", "A100 PCIe 80GB", "H100", "H100 PCIe"),
    *("H100 NVL", "H200", "H200 NVL", "GH200", "B200", "GB200", "B300", "MI250X", "MI300X", "MI325X", "MI355X"),
)
LESSER_MODELS = ("T4", "P100", "V100 16GB", "A10", "A10G", "L4")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Proof:
    """A job that the change would have made cheaper."""

    job_id: str
    user_id: str | None
    cluster_id: str
    gpu_type: str
    day: date | None
    attempts: int
    held_gpu_hours: float
    measured_gpu_hours: float | None  # in use, lost attempts included; None: no sensor measured it
    saved_gpu_hours: float


@dataclass(frozen=True)
class Advice:
    """A change, and what it would have saved at most. No GPU-hour counts for two of them."""

    kind: str
    title: str
    reckoning: str
    saves: str  # of what: idle, lost or under_used
    saved_gpu_hours: float
    saved_at_least_gpu_hours: float  # less what attempts without a known checkpoint may not have lost
    inferred_gpu_hours: float  # of what is saved, what is based on inferred times
    saved_cost: float | None  # of what has a price; None: nothing has
    unpriced_gpu_hours: float
    jobs: int
    users: int
    proofs: tuple[Proof, ...]

    @property
    def saving(self) -> str:
        """What it saves, in words."""
        up_to = "up to " if self.saved_at_least_gpu_hours < self.saved_gpu_hours else ""
        how = inferred(self.inferred_gpu_hours, self.saved_gpu_hours)
        return f"saves {up_to}{amount(self.saved_gpu_hours)} GPU-hours{how}"


# What each kind saves, what to change, and how the savings are computed. Under-used is not waste.
KINDS = {
    "release": ("idle", "Release empty GPUs", "all that was held by attempts that left it empty"),
    "stop": (
        "lost",
        "Stop retrying what fails",
        f"at most, from the {ordinal(LEAST_FAILURES)} failure in a row on, by a job or its recurrences",
    ),
    "checkpoint": (
        "lost",
        "Checkpoint long runs",
        "at most, by attempts of over an hour, less the half hour an hourly checkpoint loses",
    ),
    "fewer": (
        "under_used",
        "Ask for fewer GPUs, or a part of one",
        f"could be made smaller: what was held, less {HEADROOM:g} times what was used",
    ),
    "smaller": (
        "under_used",
        "Use a smaller GPU type, such as {lesser_type}",
        f"left by attempts that need < {LOW_USE:.0%} of a GPU and < {LESSER_GIBIBYTES} GiB of its memory",
    ),
    "share": (
        "under_used",
        "Share GPUs between recurring small jobs",
        f"held less {HEADROOM:g} times used, of recurring jobs that use less than half a GPU",
    ),
}


def prices_of(names: Iterable[str], gpu_types: Mapping[str, GpuType]) -> dict[str, float]:
    """The prices of a GPU-hour, of the GPU types that have one."""
    kinds = ((name, matching(name, gpu_types)) for name in names)
    return {name: kind.price_per_hour for name, kind in kinds if kind is not None and kind.price_per_hour >= 0}


def settings(names: Sequence[str], gpu_types: Mapping[str, GpuType]) -> dict[str, str | int | float]:
    """The variables of the query, of a lake with GPU types of these names."""
    prices = [{"gpu_type": name, "price": price} for name, price in prices_of(names, gpu_types).items()]
    return {
        "prices": json.dumps(prices),
        "scarce_types": ",".join(same_models(names, SCARCE_MODELS)),
        "lesser_types": ",".join(same_models(names, LESSER_MODELS)),
        "lesser_bytes": LESSER_GIBIBYTES << 30,
        "headroom": HEADROOM,
        "failures": LEAST_FAILURES,
        "checkpoint_hours": CHECKPOINT_HOURS,
        "low_use": LOW_USE,
        "shared_use": SHARED_USE,
        "recurrences": LEAST_RECURRENCES,
        "most": MOST_PROOFS,
    }


def advise(rows: Sequence[Row]) -> tuple[Advice, ...]:
    """The changes that would save most, best first; from the rows of each kind's largest jobs."""
    every = [_advice(kind, list(jobs)) for kind, jobs in groupby(rows, key=lambda row: str(row["kind"]))]
    worth = [advice for advice in every if advice.saved_gpu_hours >= LEAST_SAVED_GPU_HOURS]
    # Ranked by cost only if the cost of all is known.
    has_cost = all(advice.saved_cost is not None and not advice.unpriced_gpu_hours for advice in worth)
    worth.sort(key=lambda advice: (-(advice.saved_cost or 0) if has_cost else -advice.saved_gpu_hours, advice.kind))
    return tuple(worth[:MOST_ADVICE])


def _advice(kind: str, jobs: Sequence[Row]) -> Advice:
    saves, title, reckoning = KINDS[kind]
    title = title.format(lesser_type=jobs[0]["lesser_type"])
    proofs = tuple(Proof(**job["proof"]) for job in jobs)
    return Advice(kind, title, reckoning, saves, proofs=proofs, **jobs[0]["totals"])
