"""A workload from the job tables of the lake: a task for each attempt of a job on a machine.

What was asked for is the capacity; what was measured over an attempt's life is one fragment. A job that ran on several
nodes is split, since a simulated task runs on one host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulake.core.config import GpuType
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.packaged import queries
from gpulake.lake import LakeReader
from gpulake.lake.engine import surrogate_key
from gpulake.replay.workload import (
    FRAGMENTS,
    TASKS,
    Clockwork,
    Host,
    Notes,
    Outage,
    Part,
    Workload,
    pool_hosts,
    powered,
)

ROWS = 65_536
SQL = queries("gpulake.replay", "from_lake.sql", pool=surrogate_key("getvariable('cluster')", "'(all machines)'"))
NEEDED = frozenset({"silver_instances", "gold_energy_daily"})
# How long a machine was down that took an attempt with it, where no outage is known.
REPAIR_MS = 3_600_000
INFERRED = {
    "is_time_inferred": "begin or end, from the attempts and tasks around it",
    "is_submission_inferred": "submission, from the launch or the begin",
    "is_retry": "submission of a retry: the end of the try before",
    "is_instant": "duration of 1 ms: it began and ended in the same instant",
    "is_clipped": "usage above what was held, cut to it",
    "is_gpu_of_day": "GPU usage: the mean of what was measured in the cluster on its day",
    "is_gpu_of_cluster": "GPU usage: the mean of what was measured in the cluster on other days",
}
GUESSED = {
    "is_cpu_guessed": "CPU usage: all that was asked for, since it was not measured",
    "is_gpu_guessed": "GPU usage: all that was held, since nothing was measured in the cluster",
    "is_cores_guessed": "cores: one",
    "is_memory_guessed": "memory: 1 GiB",
}


REMARKED = {
    "is_fraction": "tasks with a part of a GPU core: OpenDC counts whole ones; see --gpu-cores",
    "is_memory_trimmed": "tasks with all memory of a machine: a little less, since OpenDC takes MB for MiB",
}
SPLIT = {"is_split": "tasks that are one node's or one worker's part of a job"}
SPLIT_JOBS = {"is_first_of_split": "jobs of several parts: nothing makes these run at the same time"}


@dataclass(frozen=True)
class Selection:
    """Which jobs, and the clock rates that stand for a core and for a GPU."""

    cluster: str
    user: str | None = None
    first_day: date | None = None  # of submission, on the cluster's clock
    last_day: date | None = None
    clock: Clockwork = field(default_factory=Clockwork)

    @property
    def variables(self) -> dict[str, str | float | None]:
        is_dated = self.first_day or self.last_day
        return {
            "cluster": self.cluster,
            "user_id": self.user,
            "first_day": str(self.first_day or date.min) if is_dated else None,
            "last_day": str(self.last_day or date(9999, 12, 31)) if is_dated else None,
            **asdict(self.clock),
        }


def clusters(reader: LakeReader) -> tuple[list[str], list[str]]:
    """The clusters of the last build, and the workloads that were imported."""
    imported = [str(name) for name in reader.query(SQL["imported"])["workload"].to_pylist()]
    if not reader.tables() >= NEEDED:
        return [], imported
    return [str(name) for name in reader.query(SQL["clusters"])["cluster_id"].to_pylist()], imported


def choose(name: str | None, known: list[str]) -> str:
    if name is None:
        if len(known) != 1:
            words = f"choose from: {', '.join(known)}" if known else "land jobs and build, or import a workload"
            raise UsageError(f"the lake has {len(known)} clusters and workloads; name one with --cluster", words)
        return known[0]
    if name not in known:
        raise UsageError(f"no cluster or workload named {name!r}", choice_hint(name, known))
    return name


def from_lake(reader: LakeReader, chosen: Selection, gpu_types: Mapping[str, GpuType]) -> Workload:
    notes = Notes()
    outages = _outages(reader, chosen, notes)
    hosts = [powered(host, gpu_types) for host in _hosts(reader, chosen, notes)]
    notes.guessed[f"clock rate of a core: {chosen.clock.core_mhz:g} MHz"] += max(1, sum(host.count for host in hosts))
    origin = {
        "kind": "lake",
        "cluster": chosen.cluster,
        "user": chosen.user,
        "first_day": str(chosen.first_day) if chosen.first_day else None,
        "last_day": str(chosen.last_day) if chosen.last_day else None,
    }
    return Workload(
        chosen.cluster,
        origin,
        _parts(reader, chosen, notes),
        notes,
        hosts,
        outages,
        machines=sum(host.count for host in hosts),
        clock=chosen.clock,
    )


def _parts(reader: LakeReader, chosen: Selection, notes: Notes) -> Iterator[Part]:
    next_id = 0
    for batch in reader.stream(SQL["tasks"], ROWS, **chosen.variables):
        kept = _noted(batch, notes)
        if not kept.num_rows:
            continue
        ids = pa.array(np.arange(next_id, next_id + kept.num_rows, dtype=np.int64))
        next_id += kept.num_rows
        columns = {"id": ids, **{name: kept.column(name) for name in kept.schema.names}}
        yield Part(_taken(columns, TASKS), _taken(columns, FRAGMENTS))


def _noted(batch: pa.RecordBatch, notes: Notes) -> pa.RecordBatch:
    """The rows that are tasks; the others are counted by their reason."""
    notes.read += batch.num_rows
    reasons = pc.value_counts(batch.column("reason").drop_null())
    for entry in reasons.to_pylist():
        notes.left_out[entry["values"]] += entry["counts"]
    kept = batch.filter(pc.is_null(batch.column("reason")))
    for rows, words, counter in (
        (kept, INFERRED, notes.inferred),
        (kept, GUESSED, notes.guessed),
        (kept, REMARKED, notes.remarks),
        (kept, SPLIT, notes.split),
        (batch, SPLIT_JOBS, notes.split),
    ):
        for column, meaning in words.items():
            if count := pc.sum(rows.column(column).cast(pa.int64())).as_py():
                counter[meaning] += count
    hours = pc.fill_null(kept.column("gpu_hours"), 0.0)
    notes.gpu_hours += pc.sum(hours).as_py() or 0.0
    notes.assumed_gpu_hours += pc.sum(hours.filter(kept.column("is_gpu_assumed"))).as_py() or 0.0
    return kept


def _taken(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    rows = len(columns["id"])
    arrays = [
        columns[kind.name].cast(kind.type) if kind.name in columns else pa.nulls(rows, kind.type) for kind in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _hosts(reader: LakeReader, chosen: Selection, notes: Notes) -> list[Host]:
    hosts = [
        Host(
            name=f"{chosen.cluster}-{number}",
            count=row["machines"],
            cores=row["cores"],
            core_mhz=chosen.clock.core_mhz,
            memory_bytes=row["memory_bytes"],
            gpus=row["gpus"],
            gpu_type=row["gpu_type"] if row["gpus"] else None,
        )
        for number, row in enumerate(reader.query(SQL["machines"], **chosen.variables).to_pylist(), start=1)
    ]
    unlisted = reader.query(SQL["unlisted"], **chosen.variables).to_pylist()
    for number, row in enumerate((row for row in unlisted if not row["is_pool"]), start=1):
        name = f"{chosen.cluster}-unlisted-{number}"
        hosts.append(Host(name, row["machines"], None, chosen.clock.core_mhz, None, row["gpus"], row["gpu_type"]))
        notes.guessed["hosts that no inventory lists: with as many GPUs as were held at once"] += row["machines"]
    if hosts:
        return hosts
    most = reader.query(SQL["most_gpus"], **chosen.variables)["most_gpus"][0].as_py()
    for row in unlisted:
        pool = pool_hosts(chosen.cluster, row["gpus"], most, row["gpu_type"], chosen.clock.core_mhz)
        notes.guessed["hosts of a cluster of which only the number of GPUs is known"] += sum(
            host.count for host in pool
        )
        hosts += pool
    seen = reader.query(SQL["seen"], **chosen.variables)["machines"][0].as_py()
    if seen and not hosts:
        notes.guessed["hosts that no inventory lists: as many as jobs ran on"] += seen
        hosts.append(Host(chosen.cluster, seen, None, chosen.clock.core_mhz, None))
    return hosts


def _outages(reader: LakeReader, chosen: Selection, notes: Notes) -> list[Outage]:
    rows = reader.query(SQL["outages"], **chosen.variables).to_pylist()
    if died := sum(row["basis"] == "died" for row in rows):
        notes.inferred["outages: a machine lost all it ran and stayed silent"] += died
    if rows:
        return [Outage(row["machine"], row["started_ms"], row["ended_ms"]) for row in rows]
    failed = reader.query(SQL["node_failures"], **chosen.variables).to_pylist()
    if failed:
        notes.guessed["outages of an hour: an attempt was lost to its machine"] += len(failed)
    return [Outage(row["machine"], row["started_ms"], row["started_ms"] + REPAIR_MS) for row in failed]
