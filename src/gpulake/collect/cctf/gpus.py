"""GPU rows with the owner of each GPU: by the processes on it, else by the GPUs that processes were allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from gpulake.collect.cctf.blocks import Layout, Tick
from gpulake.collect.cctf.series import named
from gpulake.collect.machine.owners import names_gpu
from gpulake.collect.rows import GpuProcess, GpuSample
from gpulake.collect.segments import Block

if TYPE_CHECKING:
    from gpulake.collect.cctf.processes import Processes

Owner: TypeAlias = tuple[str, str]
FIELDS = GpuSample._fields[1:]  # all but its time


@dataclass
class GivenGpus:
    """The GPUs that processes were allocated, with the number of processes per owner."""

    _owners: dict[str, Counter[Owner]] = field(default_factory=dict)

    def add(self, process: Mapping[str, Any]) -> None:
        if given := process.get("given_gpus"):
            self._owners.setdefault(given, Counter())[_owner(process)] += 1

    def remove(self, process: Mapping[str, Any]) -> None:
        if given := process.get("given_gpus"):
            owners = self._owners[given]
            owners[_owner(process)] -= 1
            if owners[_owner(process)] <= 0:
                del owners[_owner(process)]
            if not owners:
                del self._owners[given]

    def owners_of(self, gpu: Mapping[str, Any]) -> set[Owner]:
        """Without unattributed processes: anyone may set the variable in a shell."""
        gpu_names = str(gpu.get("gpu_uuid")), gpu.get("gpu_index"), gpu.get("parent_uuid")
        named = (owners for given, owners in self._owners.items() if names_gpu(given, *gpu_names))
        return {owner for owners in named for owner in owners if owner[0] != "unattributed"}


def gpu_rows(
    tick: Tick, layout: Layout, block: Block, processes: Processes
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of gpu_metrics and of gpu_processes."""
    uses = list(layout.rows(block, "gpu_process"))
    samples = list(layout.rows(block, "gpu"))
    users = _Users(uses, samples)
    metrics = []
    for sample in samples:
        kind, owner_id, evidence = _holder(users.of(sample), processes.given.owners_of(sample))
        metrics.append(
            named(tick, sample.get("elapsed_ms"))
            | {name: sample.get(name) for name in FIELDS}
            | {"owner_kind": kind, "owner_id": owner_id, "owner_evidence": evidence}
        )
    return metrics, list(_process_rows(tick, uses, processes))


class _Users:
    """Owners of the processes on each GPU, including those on its MIG instances."""

    def __init__(self, uses: list[dict[str, Any]], samples: list[dict[str, Any]]) -> None:
        parents = {sample.get("gpu_uuid"): sample.get("parent_uuid") for sample in samples}
        self._at: dict[tuple[Any, Any], set[Owner]] = {}
        self._any: dict[Any, set[Owner]] = {}
        for use in uses:
            uuid = use.get("gpu_uuid")
            for gpu in {uuid, parents.get(uuid)} - {None}:
                self._at.setdefault((gpu, use.get("elapsed_ms")), set()).add(_owner(use))
                self._any.setdefault(gpu, set()).add(_owner(use))

    def of(self, sample: Mapping[str, Any]) -> set[Owner]:
        """At the time of the sample, else within the tick."""
        uuid = sample.get("gpu_uuid")
        found = self._at.get((uuid, sample.get("elapsed_ms")))
        if found is not None:
            return found
        return set() if sample.get("processes") == 0 else self._any.get(uuid, set())


def _process_rows(tick: Tick, uses: list[dict[str, Any]], processes: Processes) -> Iterator[dict[str, Any]]:
    for use in uses:
        comm = use.get("comm")
        yield (
            named(tick, use.get("elapsed_ms"))
            | {name: use.get(name) for name in GpuProcess._fields[1:]}
            | {
                "proc_id": processes.proc_id_of(use.get("pid")),
                "comm": comm if comm is not None else processes.comm_of(use.get("pid")),
            }
        )


def _holder(using: set[Owner], given: set[Owner]) -> tuple[str | None, str | None, str | None]:
    for owners, evidence in ((using, "process"), (given, "environment")):
        if len(owners) > 1:
            return "several", None, evidence
        for kind, owner_id in owners:
            return kind, owner_id, evidence
    return None, None, None


def _owner(row: Mapping[str, Any]) -> Owner:
    return str(row.get("owner_kind") or "unattributed"), str(row.get("owner_id") or "")
