"""Small clusters written by hand: PAI jobs, in hours since the first midnight of 2026 in Shanghai."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpulake.act.holders import Holder
from gpulake.core.config import Config
from gpulake.flow import Flow
from lake_cache import copied

FIRST = datetime(2025, 12, 31, 16, tzinfo=UTC)
STATUSES = {"succeeded": "Terminated", "failed": "Failed", "running": "Running", "interrupted": "Interrupted"}
MACHINES = {"v": ("V100", 16), "t": ("T4", 8)}


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job. used: GPUs in use, None for no sensor; end: None for not recorded."""

    job: str
    user: str
    start: float
    end: float | None
    gpus: float = 1.0
    used: float | None = None
    status: str = "succeeded"
    machine: str = "v"
    peak_gib: float = 20.0
    group: str = ""
    workload: str = ""
    instance: str = ""  # its attempts are tries one after the other


def hour(hours: float) -> datetime:
    return FIRST + timedelta(hours=hours)


def write_trace(folder: Path, attempts: Sequence[Attempt]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[str]] = {
        name: [] for name in ("job_table", "task_table", "instance_table", "sensor_table", "group_tag_table")
    }
    jobs: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        jobs.setdefault(attempt.job, []).append(attempt)
    for job, tries in jobs.items():
        first, last = tries[0], tries[-1]
        begin = min(seconds(attempt.start) for attempt in tries)
        end = "" if last.end is None else seconds(last.end)
        gpu_type = MACHINES[first.machine][0]
        status = STATUSES[last.status]
        tables["job_table"].append(f"{job},i-{job},{first.user},{status},{begin},{end}")
        tables["task_table"].append(f"{job},worker,1,{status},{begin},{end},600,29,{100 * first.gpus},{gpu_type}")
        if first.group:
            tables["group_tag_table"].append(f"i-{job},{first.user},,{first.group},{first.workload}")
        for number, attempt in enumerate(tries):
            worker = f"w-{job}-{number}"
            tables["instance_table"].append(
                f"{job},worker,n-{job}{attempt.instance},{worker},i-{job},{STATUSES[attempt.status]},{seconds(attempt.start)},"
                f"{'' if attempt.end is None else seconds(attempt.end)},{attempt.machine}"
            )
            if attempt.used is not None:
                tables["sensor_table"].append(
                    f"{job},worker,{worker},i-{job},{attempt.machine},/dev/nvidia0,1,{100 * attempt.used},1,1,"
                    f"{attempt.peak_gib},{attempt.peak_gib},0,0,0,0"
                )
    tables["machine_spec"] = [f"{name},{kind},96,512,{gpus}" for name, (kind, gpus) in MACHINES.items()]
    for name, lines in tables.items():
        if lines:
            (folder / f"pai_{name}.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def build_trace(config: Config, attempts: Sequence[Attempt]) -> Config:
    """The lake of the configuration, refreshed from the attempts; they are written beside it."""

    def make(folder: Path) -> None:
        Flow(replace(config, lake=folder / "lake")).refresh([write_trace(folder / "raw", attempts)], None)

    copied(repr((attempts, replace(config, lake=Path()))), make, config.lake.parent)
    return config


def write_checkpoints(folder: Path, saved: Sequence[tuple[str, float]], cluster: str = "pai") -> Path:
    """When which job saved its state, in hours."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{cluster},{job},{hour(hours).isoformat()}" for job, hours in saved]
    path = folder / "checkpoints.csv"
    path.write_text("".join(f"{line}\n" for line in ("cluster,job,saved_at", *lines)), encoding="utf-8")
    return path


def write_accounting(folder: Path, cluster: str) -> Path:
    """What sacct tells of a cluster with one job, which held two GPUs for three hours."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = "JobID|JobName|User|Account|Cluster|State|Submit|Eligible|Start|End"
    fields += "|NNodes|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList"
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T04:00:00"
    row = f"7|train|ann|math|{cluster}|COMPLETED|{times}|1|8|16G|gres/gpu=2|gres/gpu=2|gpu01"
    path = folder / "sacct.txt"
    path.write_text(f"{fields}\n{row}\n", encoding="utf-8")
    return path


def seconds(hours: float) -> float:
    return hour(hours).timestamp()


def minute(minutes: float) -> datetime:
    return FIRST + timedelta(minutes=minutes)


def holder(job: str = "j", seen: float = 120, since: float = 0, gpus: float = 2.0, **others: object) -> Holder:
    """One that is seen some minutes after it got its GPUs."""
    facts = {
        "cluster_id": "c",
        "job_id": job,
        "user_id": "ann",
        "account_id": "lab",
        "workload": "nlp",
        "group_id": "g",
        "gpu_types": ("T4",),
        "gpus": gpus,
        "since": minute(since),
        "seen_at": minute(seen),
        "gpu_hours": gpus * (seen - since) / 60,
        "cost": None,
        "time_zone": "UTC",
        "is_at_work": False,
    }
    return Holder(**{**facts, **others})  # type: ignore[arg-type]
