"""OpenDC, the datacenter simulator: a workload, a topology and an experiment that it runs as they are.

tasks.parquet, fragments.parquet   the workload, in the schema of today's loader
failures.parquet                   if machines are known to have been down
sdk/, legacy/                      topology.json and experiment.json in either of its JSON dialects
export.json                        what was made of what, what was left out, inferred and guessed
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from gpulake.core.errors import InputError, UsageError
from gpulake.replay.exports import EXPORTS, Exported
from gpulake.replay.exports.opendc_checks import Checks, unplaceable
from gpulake.replay.exports.opendc_experiment import (
    Checkpoints,
    check_policy,
    legacy_experiment,
    oversubscribes,
    placed,
    sdk_experiment,
    topology,
)
from gpulake.replay.exports.opendc_tables import (
    FAILURES,
    FRAGMENTS_V2,
    TableFile,
    failure_batch,
    failures,
    fragment_batch,
    task_batch,
    task_schema,
)
from gpulake.replay.workload import Clockwork, Host, Notes, Workload

DIALECTS = ("sdk", "legacy")
SUMMARY = "export.json"
Table: TypeAlias = tuple[pa.Schema, Iterable[pa.RecordBatch], float | None]  # and what a GPU is, MHz


@dataclass(frozen=True)
class Simulated:
    """What a topology and an experiment are written for."""

    name: str
    hosts: Sequence[Host]
    clock: Clockwork
    has_gpus: bool
    failures: int


@EXPORTS.register("opendc")
@dataclass(frozen=True, kw_only=True)
class OpendcExport:
    dialects: tuple[str, ...] = DIALECTS
    schema_version: int = 3
    policy: str | None = None  # None: named filters, the GPU's among them
    checkpoints: Checkpoints | None = None  # of every task; None: a task that fails begins anew
    has_plain_times: bool = False  # INT64 in the place of TIMESTAMP, as the samples have it

    def __post_init__(self) -> None:
        check_policy(self.policy)

    def write(self, workload: Workload, folder: Path) -> Exported:
        with staged(folder) as staging:
            checks, lost = self._write_tables(workload, staging)
            if not checks.tasks:
                reasons = ", ".join(f"{count} {reason}" for reason, count in workload.notes.left_out.items())
                raise InputError(f"there is no task to export{': ' if reasons else ''}{reasons}", "choose more of it")
            hosts = placed(workload.hosts, checks, workload.notes, workload.clock)
            rows = failures(workload.outages, workload.machines, checks.first_submission_ms)
            if rows:
                with TableFile(staging / "failures.parquet", FAILURES) as table:
                    table.write(failure_batch(rows))
            if lost:
                workload.notes.remarks["tasks that fit no host of the topology"] += lost
            what = Simulated(workload.name, hosts, workload.clock, checks.has_gpus, len(rows))
            counts = {
                "tasks": checks.tasks,
                "fragments": checks.fragments,
                "failures": len(rows),
                "outages": len(workload.outages),
                "gpu_hours": workload.notes.gpu_hours,
                "assumed_gpu_hours": workload.notes.assumed_gpu_hours,
            }
            summary = self._describe(staging, what, workload.origin, counts, workload.notes)
        return Exported(folder, summary)

    def write_as_it_was(
        self,
        tables: Mapping[str, Table],
        name: str,
        hosts: Sequence[Host],
        clock: Clockwork,
        notes: Notes,
        folder: Path,
    ) -> Exported:
        """The tables of a workload that came from elsewhere, unchanged: they are not checked."""
        counts = {}
        with staged(folder) as staging:
            for file, (schema, batches, gpu_mhz) in tables.items():
                with TableFile(staging / file, schema, gpu_mhz) as table:
                    for batch in batches:
                        table.write(batch)
                counts[Path(file).stem] = table.rows
            what = Simulated(name, hosts, clock, any(host.gpus for host in hosts), 0)
            summary = self._describe(staging, what, {"kind": "imported", "workload": name}, counts, notes)
        return Exported(folder, summary)

    def _write_tables(self, workload: Workload, staging: Path) -> tuple[Checks, int]:
        schema = task_schema(self.schema_version, self.has_plain_times)
        checks = Checks()
        lost = 0
        with (
            TableFile(staging / "tasks.parquet", schema, workload.clock.gpu_mhz) as tasks,
            TableFile(staging / "fragments.parquet", FRAGMENTS_V2) as fragments,
        ):
            for part in workload.parts:
                checks.check(part)
                lost += unplaceable(part.tasks, workload.hosts, workload.clock.gpu_cores)
                tasks.write(task_batch(part.tasks, schema))
                fragments.write(fragment_batch(part.fragments))
            checks.fragments = fragments.rows
        return checks, lost

    def _describe(
        self,
        staging: Path,
        what: Simulated,
        origin: Mapping[str, object],
        counts: Mapping[str, float],
        notes: Notes,
    ) -> dict[str, Any]:
        """Everything except the tables: topologies, experiments and export.json."""
        for dialect in self.dialects:
            described = topology(what.name, what.hosts, what.clock, dialect)
            folder = staging / dialect
            folder.mkdir()
            write_json(folder / "topology.json", described)
            if dialect == "sdk":
                experiment = sdk_experiment(
                    what.name, described, self.policy, what.has_gpus, what.failures, self.checkpoints
                )
            else:
                experiment = legacy_experiment(what.name, self.policy, what.has_gpus, what.failures, self.checkpoints)
            write_json(folder / "experiment.json", experiment)
        if oversubscribes(self.policy, what.has_gpus):
            notes.remarks[f"policy {self.policy} has no GPU filter: GPUs will be given away many times over"] += 1
        summary = {
            "name": what.name,
            "from": dict(origin),
            "read": notes.read,
            **counts,
            "left_out": dict(notes.left_out),
            "split": dict(notes.split),
            "inferred": dict(notes.inferred),
            "guessed": dict(notes.guessed),
            "remarks": dict(notes.remarks),
            "hosts": [asdict(host) for host in what.hosts],
            "settings": {**asdict(self), **asdict(what.clock), "dialects": list(self.dialects)},
        }
        write_json(staging / SUMMARY, summary)
        return summary


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A temporary folder beside the output folder, renamed to it on success, removed on failure."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there and not empty", "name a new folder with --out")
    staging = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}")
    try:
        staging.mkdir(parents=True)
        yield staging
        if folder.is_dir():
            folder.rmdir()
        staging.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "choose a folder that can be written") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
