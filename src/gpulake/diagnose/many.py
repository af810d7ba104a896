"""Many logs at once: one diagnosis a job, in as many processes as there are cores, joined to the jobs of the lake."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.diagnosis import UNKNOWN, Diagnosis
from gpulake.core.errors import GpulakeError
from gpulake.core.progress import Report
from gpulake.core.redaction import redacted_diagnosis
from gpulake.diagnose.api import diagnose
from gpulake.diagnose.logs.reading import Logs, open_logs
from gpulake.diagnose.rulebook.book import Rulebook, shipped
from gpulake.diagnose.rulebook.rule import Rule
from gpulake.diagnose.scheduler import SQL, Record, is_of_another, job_of_file, record_from, with_record

if TYPE_CHECKING:
    from gpulake.lake import LakeReader

AT_A_TIME = 8  # logs that a process takes at once
# Parts of a file's name that tell the files of one job apart.
_PART = re.compile(r"[-_.](?:rank|node|task|worker|gpu|proc|host|stdout|stderr)[-_]?\d*(?=[-_.]|$)", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:out|err|log|txt|gz|zst|stdout|stderr)$")


@dataclass(frozen=True)
class JobLog:
    """The files of one job."""

    name: str
    files: tuple[Path, ...]
    job_id: str | None = None  # by the name that Slurm gives to its files


@dataclass(frozen=True)
class Diagnosed:
    log: JobLog
    diagnosis: Diagnosis
    note: str = ""  # where the log and the scheduler's record disagree, or why it could not be read


def holds_many_jobs(folder: Path) -> bool:
    """Whether its files are named for several jobs of Slurm; else they are the files of one job."""
    return folder.is_dir() and len({job_of_file(path) for path in folder.iterdir()} - {None}) > 1


def job_logs(paths: Iterable[Path]) -> list[JobLog]:
    """Every file of a folder is a job of its own, but for those that differ only in their rank or their stream."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        for file in (one.path for one in open_logs(path).files) if path.is_dir() else (path,):
            if file is not None:
                found.setdefault(file.parent / _stem(file.name), []).append(file)
    return [JobLog(stem.name, tuple(files), job_of_file(files[0])) for stem, files in found.items()]


def _stem(name: str) -> str:
    while (shorter := _ENDING.sub("", name)) != name and shorter:
        name = shorter
    return _PART.sub("", name) or name


def diagnose_many(
    logs: Sequence[JobLog], rulebook: Rulebook, time_zone: str, report: Report, processes: int | None = None
) -> Iterator[Diagnosed]:
    """By the logs alone, in their order. A log that cannot be read costs only its own row."""
    processes = processes or os.cpu_count() or 1
    # The shipped rules are read by each process: they are many, and cost more to send.
    rules = rulebook.rules if rulebook is not shipped() else None
    with ProcessPoolExecutor(min(processes, len(logs)), initializer=_prepare, initargs=(rules, time_zone)) as pool:
        for place, one in enumerate(pool.map(_one, logs, chunksize=AT_A_TIME)):
            report(f"diagnosed {place + 1} of {len(logs)}", (place + 1) / len(logs))
            yield one


_rulebook, _time_zone = None, "UTC"  # of this process


def _prepare(rules: tuple[Rule, ...] | None, time_zone: str) -> None:
    global _rulebook, _time_zone  # noqa: PLW0603 - what a pool prepares once for each of its processes
    _rulebook = Rulebook(rules) if rules is not None else shipped()
    _time_zone = time_zone


def _one(log: JobLog) -> Diagnosed:
    try:
        opened = [open_logs(file) for file in log.files]
        merged = Logs(tuple(file for one in opened for file in one.files), is_folder=len(opened) > 1)
        answer = diagnose(merged, rulebook=_rulebook, time_zone=_time_zone)
    except GpulakeError as error:
        return Diagnosed(log, Diagnosis("unknown", "unknown", UNKNOWN, error.message), error.message)
    return Diagnosed(log, redacted_diagnosis(answer.diagnosis))


def joined(found: Sequence[Diagnosed], reader: LakeReader, cluster_id: str | None) -> list[Diagnosed]:
    """With the records of the jobs that the files are named for, and the GPU-hours that these held."""
    ids = sorted({one.log.job_id for one in found if one.log.job_id})
    rows = reader.query(SQL["scheduled_many"], job_ids="|".join(ids), cluster_id=cluster_id).to_pylist()
    records: dict[str, list[tuple[Record, float | None]]] = {}
    for row in rows:
        records.setdefault(row["job_id"], []).append((record_from(row), row["gpu_hours"]))
    return [_joined(one, records.get(one.log.job_id or "", [])) for one in found]


def _joined(one: Diagnosed, records: list[tuple[Record, float | None]]) -> Diagnosed:
    if len(records) != 1 or is_of_another(one.log.files[0], records[0][0]):
        return one
    record, held = records[0]
    named = replace(one.diagnosis, job_id=one.log.job_id, cluster_id=record.cluster_id)
    decided, note = with_record(named, record)
    lost = held if decided.verdict == "failed" else 0.0 if decided.verdict == "healthy" else None
    return Diagnosed(one.log, replace(decided, gpu_hours_lost=lost), note or one.note)


@dataclass(frozen=True)
class Cause:
    """The jobs of one reason."""

    reason: str
    jobs: int
    gpu_hours_lost: float | None  # of those of which it is known


def by_cause(found: Iterable[Diagnosed]) -> list[Cause]:
    """The costliest first."""
    groups: dict[str, list[float | None]] = {}
    for one in found:
        groups.setdefault(one.diagnosis.reason, []).append(one.diagnosis.gpu_hours_lost)
    causes = []
    for reason, hours in groups.items():
        known = [value for value in hours if value is not None]
        causes.append(Cause(reason, len(hours), sum(known) if known else None))
    return sorted(causes, key=lambda cause: (-(cause.gpu_hours_lost or 0.0), -cause.jobs, cause.reason))
