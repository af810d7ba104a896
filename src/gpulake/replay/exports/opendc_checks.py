"""The invariants of an exported workload, checked on each part before it is written.

OpenDC silently accepts a task whose fragments end early, skips one without fragments, lets usage exceed capacity: so
none of these may be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpulake.core.errors import GpulakeError
from gpulake.replay.workload import LARGEST_ID, Host, Part

# A sum of rates may come out a little above what it is a sum of.
SLACK = 1e-9


class InvariantError(GpulakeError):
    """A fault of ours, never of the user's data."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the export is not sound: {what}", "nothing was written; please report this")


@dataclass
class Checks:
    """Goes over the parts of one workload in their order."""

    next_id: int = 0
    last_submission_ms: int = -(2**62)
    tasks: int = 0
    fragments: int = 0
    most_cores: int = 0
    most_gpu_cores: int = 0
    most_memory_mb: int = 0
    has_gpus: bool = False
    first_submission_ms: int = 2**62

    def check(self, part: Part) -> None:
        tasks, fragments = part.tasks, part.fragments
        if not tasks.num_rows:
            _demand(not fragments.num_rows, "fragments of no task")
            return
        ids = _numbers(tasks, "id")
        self._check_order(ids, _numbers(tasks, "submission_ms"))
        self._check_sizes(tasks)
        owners = _numbers(fragments, "id")
        starts = np.searchsorted(owners, ids)
        _demand(bool(np.all(np.diff(owners) >= 0)), "fragments are not in the order of their tasks")
        _demand(bool(np.array_equal(np.unique(owners), ids)), "a task without fragments, or fragments of no task")
        lengths = _numbers(fragments, "duration_ms")
        _demand(bool(np.all(lengths > 0)), "a fragment without duration")
        _demand(
            bool(np.array_equal(np.add.reduceat(lengths, starts), _numbers(tasks, "duration_ms"))),
            "fragments do not cover their task",
        )
        _check_usage(tasks, fragments, starts, "cpu")
        _check_usage(tasks, fragments, starts, "gpu")
        self._remember(tasks, ids)

    def _check_order(self, ids: np.ndarray, submissions: np.ndarray) -> None:
        expected = np.arange(self.next_id, self.next_id + len(ids))
        _demand(bool(np.array_equal(ids, expected)), "ids do not count up")
        _demand(int(ids[-1]) <= LARGEST_ID, "more tasks than an INT32 can count")
        _demand(bool(np.all(np.diff(submissions) >= 0)), "tasks are not in the order of their submission")
        _demand(int(submissions[0]) >= self.last_submission_ms, "tasks are not in the order of their submission")

    def _check_sizes(self, tasks: pa.RecordBatch) -> None:
        for column in ("duration_ms", "cpu_count", "mem_capacity_kb"):
            _demand(bool(np.all(_numbers(tasks, column) >= 1)), f"{column} below 1")
        _demand(bool(np.all(_numbers(tasks, "cpu_capacity_mhz") > 0)), "no CPU capacity")
        counts, capacities = tasks.column("gpu_count"), tasks.column("gpu_capacity_mhz")
        _demand(counts.is_null().equals(capacities.is_null()), "gpu_count and gpu_capacity are not there together")
        _demand(bool(np.all(_filled(counts, 1) >= 1)), "gpu_count below 1")
        _demand(bool(np.all(_filled(capacities, 1) > 0)), "no GPU capacity")

    def _remember(self, tasks: pa.RecordBatch, ids: np.ndarray) -> None:
        submissions = _numbers(tasks, "submission_ms")
        self.next_id += len(ids)
        self.last_submission_ms = int(submissions[-1])
        self.tasks += tasks.num_rows
        self.most_cores = max(self.most_cores, int(_numbers(tasks, "cpu_count").max()))
        self.most_memory_mb = max(self.most_memory_mb, int(memory_mb(tasks).max()))
        gpus = _filled(tasks.column("gpu_count"), 0)
        self.most_gpu_cores = max(self.most_gpu_cores, int(gpus.max()))
        self.has_gpus = self.has_gpus or bool(self.most_gpu_cores)
        self.first_submission_ms = min(self.first_submission_ms, int(submissions[0]))


def memory_mb(tasks: pa.RecordBatch) -> np.ndarray:
    """As OpenDC's loader has it: kilobytes by a thousand, rounded."""
    return np.floor(_numbers(tasks, "mem_capacity_kb") / 1000.0 + 0.5).astype(np.int64)


def unplaceable(tasks: pa.RecordBatch, hosts: Sequence[Host], gpu_cores: int) -> int:
    """Tasks that fit no host by OpenDC's filters of cores, GPUs and memory; what is not known of a host is enough."""
    if not tasks.num_rows or not hosts:
        return 0
    cores, memory = _numbers(tasks, "cpu_count"), memory_mb(tasks)
    gpus = _filled(tasks.column("gpu_count"), 0)
    fits = np.zeros(tasks.num_rows, dtype=bool)
    for host in hosts:
        enough = gpus <= host.gpus * gpu_cores
        if host.cores is not None:
            enough &= cores <= host.cores
        if host.memory_bytes is not None:
            # Megabytes against mebibytes: OpenDC compares the two numbers as they are.
            enough &= memory <= host.memory_bytes // 2**20
        fits |= enough
    return int(np.count_nonzero(~fits))


def _check_usage(tasks: pa.RecordBatch, fragments: pa.RecordBatch, starts: np.ndarray, kind: str) -> None:
    usage, capacity = fragments.column(f"{kind}_usage_mhz"), tasks.column(f"{kind}_capacity_mhz")
    lengths = np.diff(np.append(starts, fragments.num_rows))
    has_capacity = np.repeat(~capacity.is_null().to_numpy(zero_copy_only=False), lengths)
    has_usage = ~usage.is_null().to_numpy(zero_copy_only=False)
    _demand(
        bool(np.array_equal(has_capacity, has_usage)), f"{kind}_usage where there is no {kind}, or none where it is"
    )
    values = _filled(usage, 0.0)
    _demand(bool(np.all(np.isfinite(values) & (values >= 0))), f"{kind}_usage below 0 or not finite")
    allowed = np.repeat(_filled(capacity, 0.0), lengths)
    _demand(bool(np.all(values <= allowed * (1 + SLACK))), f"{kind}_usage above {kind}_capacity")


def _numbers(batch: pa.RecordBatch, column: str) -> np.ndarray:
    return np.asarray(batch.column(column).to_numpy(zero_copy_only=False))


def _filled(values: pa.Array, empty: float) -> np.ndarray:
    return np.asarray(values.fill_null(empty).to_numpy(zero_copy_only=False))


def _demand(is_kept: bool, what: str) -> None:
    if not is_kept:
        raise InvariantError(what)
