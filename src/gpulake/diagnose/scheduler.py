"""The record of the scheduler as evidence: how it says that a job ended, beside what the job's log says."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis, Recovery
from gpulake.core.packaged import packaged_toml, queries
from gpulake.core.words import label
from gpulake.diagnose.cause.cascade import CAUSES

if TYPE_CHECKING:
    from gpulake.lake import LakeReader

SQL = queries("gpulake.diagnose", "queries.sql")
NEEDED = {"silver_jobs", "bronze_slurm_jobs"}
_TABLE = packaged_toml("gpulake.diagnose", "scheduler.toml")
_FAILED = {*_TABLE["reasons"], "FAILED", "failed"}
_ENDED_WELL = {"COMPLETED", "succeeded"}
_FILE = re.compile(r"slurm[-_.](\d+(?:_\d+)?)\.(?:out|err|log|txt)(?:\.gz|\.zst)?$")
SURE, VAGUE = 0.85, 0.4
SCHEDULER = "The scheduler has the job as"
EXEC = "The traced command ended as"


@dataclass(frozen=True)
class Record:
    """How a job ended according to its scheduler."""

    cluster_id: str
    user_id: str | None
    state: str  # of Slurm, in capitals; else the status of the job
    exit_code: str = ""  # code:signal

    @property
    def reason(self) -> str:
        """Empty where the state says only that it failed, that it runs or that it ended well."""
        known = _TABLE["reasons"].get(self.state, "")
        if known or self.state not in _FAILED:
            return str(known)
        code, _, signal = self.exit_code.partition(":")
        number = int(signal or 0) or (int(code) - 128 if code.isdigit() and int(code) > 128 else 0)
        return str(_TABLE["signals"].get(str(number), ""))

    @property
    def has_failed(self) -> bool:
        return self.state in _FAILED

    def __str__(self) -> str:
        return self.state + (f" with exit code {self.exit_code}" if self.exit_code not in ("", "0:0") else "")


def record_of(reader: LakeReader, job_id: str, cluster_id: str | None) -> Record | None:
    """None where the job is unknown, or two clusters have a job of this id."""
    if not reader.tables() >= NEEDED:
        return None
    rows = reader.query(SQL["scheduled"], job_id=job_id, cluster_id=cluster_id).to_pylist()
    if len(rows) != 1:
        return None
    return record_from(rows[0])


def record_from(row: Mapping[str, Any]) -> Record:
    return Record(row["cluster_id"], row["user_id"], row["state"] or row["status"], row["exit_code"] or "")


def is_of_another(log: Path, record: Record) -> bool:
    """Whether the file belongs to another user than the job."""
    try:
        owner = pwd.getpwuid(os.lstat(log).st_uid).pw_name
    except (OSError, KeyError):
        return False
    return owner not in (record.user_id, "root")


def job_of_file(log: Path) -> str | None:
    """The job that Slurm wrote the file for, by the name that it gives to files."""
    found = _FILE.search(log.name)
    return found[1] if found else None


def with_record(diagnosis: Diagnosis, record: Record, who: str = SCHEDULER) -> tuple[Diagnosis, str]:
    """What the log leaves open, or shows only the consequence of, the record decides; and where they disagree."""
    if record.state in _ENDED_WELL:
        return _ended_well(diagnosis, record, who)
    if not record.has_failed:
        return diagnosis, ""
    reason = record.reason
    said = f"{who} {label(str(record))}"
    if diagnosis.verdict == "failed" and diagnosis.reason != UNKNOWN:
        if reason and diagnosis.reason in CAUSES.get(reason, ()):
            return _decided(diagnosis, reason, said), f"The log shows {diagnosis.reason}. {said}."
        return replace(diagnosis, telemetry=(*diagnosis.telemetry, f"{said}.")), ""
    note = f"The log says that the run ended well. {said}." if diagnosis.verdict == "healthy" else ""
    return _decided(diagnosis, reason or UNKNOWN, said), note


def _ended_well(diagnosis: Diagnosis, record: Record, who: str) -> tuple[Diagnosis, str]:
    said = f"{who} {label(str(record))}"
    if diagnosis.verdict == "failed":
        return diagnosis, f"The log shows {diagnosis.reason}. {said}."
    if diagnosis.verdict == "healthy":
        return diagnosis, ""
    well = Recovery("none", "Nothing failed.")
    return replace(_decided(diagnosis, NOT_A_FAILURE, said), verdict="healthy", recovery=well), ""


def _decided(diagnosis: Diagnosis, reason: str, said: str) -> Diagnosis:
    action, why = _TABLE["actions"].get(reason, ("unknown", ""))
    return replace(
        diagnosis,
        verdict="failed",
        reason=reason,
        category=CATEGORY_OF[reason],
        cause=f"{said}, and no line of the log says more" if reason == UNKNOWN else said,
        remedy="",
        recovery=Recovery(action, why),
        confidence=VAGUE if reason == UNKNOWN else SURE,
        method="scheduler",
        rule="",
    )
