"""Jobs and machines of a past, as arrays: what a simulation takes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.replay.kernel.arrays import GPU, Ints


def _ints(values: Any) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int64)


@dataclass(frozen=True)
class Trace:
    """One entry a job, by time of submission. Seconds count from the begin; GPUs are thousandths."""

    submit: Ints
    count: Ints  # instances, which start together
    part: Ints  # thousandths of a GPU of each
    work: Ints  # seconds that it runs
    estimate: Ints  # seconds that its user asked for
    allowed: Ints  # row of Machines.allow
    limit: Ints  # seconds after which it is ended; 0: none
    rank: Ints  # of its priority: 0 goes first
    account: Ints
    after: Ints  # the job that must have ended; -1: none
    predicted: Ints  # seconds predicted from the past
    by_user: Ints  # the same by other runs of the user alone
    by_group: Ints  # of the group alone
    by_request: Ints  # of the group with as many GPUs

    @classmethod
    def of(cls, submit: Any, count: Any, part: Any, work: Any, **more: Any) -> Trace:
        size = len(submit)
        given = {"submit": submit, "count": count, "part": part, "work": work, **more}
        given.setdefault("estimate", given["work"])
        given.setdefault("predicted", given["estimate"])
        given.setdefault("after", np.full(size, -1))
        lengths = ("by_user", "by_group", "by_request")
        for name in lengths:
            given.setdefault(name, given["predicted"])
        columns = {one.name: _ints(given.get(one.name, np.zeros(size))) for one in fields(cls)}
        for name in ("work", "estimate", "predicted", *lengths):
            columns[name] = np.maximum(columns[name], 1)
        columns["part"] = whole_above_one(columns["part"])
        return cls(**columns)

    def __len__(self) -> int:
        return len(self.submit)

    def kept(self, is_kept: NDArray[np.bool_]) -> Trace:
        """Some of the jobs; a dependency on one that is left out is dropped."""
        if is_kept.all():
            return self
        number = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        after = np.where(self.after >= 0, number[np.maximum(self.after, 0)], -1) if len(self) else self.after
        columns = {one.name: getattr(self, one.name)[is_kept] for one in fields(self)}
        return Trace(**(columns | {"after": after[is_kept]}))

    @property
    def milli(self) -> Ints:
        return self.count * self.part


def whole_above_one(part: Ints) -> Ints:
    """A GPU is shared in parts; more than one is held whole."""
    return np.where(part > GPU, -(-part // GPU) * GPU, np.maximum(part, 1))


@dataclass(frozen=True)
class Machines:
    gpus: Ints
    allow: NDArray[np.bool_]  # by row that jobs name, and machine
    tier: Ints  # 1: high-end, kept for large jobs by some policies
    out_machine: Ints = field(default_factory=lambda: _ints([]))  # outages
    out_from: Ints = field(default_factory=lambda: _ints([]))
    out_until: Ints = field(default_factory=lambda: _ints([]))
    types: tuple[str, ...] = ()  # GPU type of each machine

    @classmethod
    def of(cls, gpus: Any, **more: Any) -> Machines:
        size = len(gpus)
        more.setdefault("allow", np.ones((1, size), np.bool_))
        more.setdefault("tier", np.zeros(size))
        more.setdefault("types", ("",) * size)
        arrays = {name: _ints(value) for name, value in more.items() if name not in ("allow", "types")}
        return cls(gpus=_ints(gpus), allow=np.asarray(more["allow"], np.bool_), types=tuple(more["types"]), **arrays)

    def with_outages(self, machine: Any, begin: Any, until: Any) -> Machines:
        return replace(self, out_machine=_ints(machine), out_from=_ints(begin), out_until=_ints(until))

    @property
    def total_gpus(self) -> int:
        return int(self.gpus.sum())


@dataclass(frozen=True)
class Tuning:
    """What a back-test fits, and what a scenario changes."""

    latency_seconds: int = 0
    depth: int = 0  # 0: the policy's own
    checkpoint_seconds: int = 0
    restart_seconds: int = 0
    half_life_seconds: int = 7 * 86_400
    level_gpu_hours: tuple[float, ...] = (1.0, 10.0, 100.0)  # at which a job goes down a level of attained time
