"""One job: what it asked for, held, used of each GPU, waited and cost, how it ended and why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.ledger import HELD, LOST
from gpulake.core.packaged import built_tables, queries
from gpulake.formats import slurm
from gpulake.lake import LakeReader
from gpulake.show.efficiency import Money, money_of
from gpulake.show.job_advice import Change, changes

_HELD = ", ".join(f"sum({name}_gpu_hours) AS {name}" for name in (*HELD, "lost_at_least"))
SQL = queries("gpulake.show", "job_report.sql", held=_HELD)
NEEDED = built_tables(SQL)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """None: the source does not say."""

    gpus: float | None
    gpu_type: str | None
    gpu_model: str | None
    gpu_memory_bytes: int | None  # of one GPU
    cores: float | None
    memory_bytes: int | None
    limit_seconds: float | None


@dataclass(frozen=True)
class Used:
    """Of what sensors and the scheduler measured; None: nothing did."""

    gpus: float | None  # of those that it asked for, on average while they were held and measured
    gpu_hours: float | None
    cores: float | None
    peak_memory_bytes: int | None  # at most, of all its tasks together


@dataclass(frozen=True)
class GpuUse:
    node: str
    gpu_index: int | None
    gpu_id: str
    busy_ratio: float | None
    peak_memory_bytes: int | None
    memory_bytes: int | None
    power_watts: float | None
    energy_joules: float | None
    seconds: float


@dataclass(frozen=True)
class JobReport:
    cluster_id: str
    job_id: str
    user_id: str | None
    account_id: str | None
    group_id: str | None
    workload: str | None
    status: str
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    seen_until: datetime | None  # of one that has not ended
    wait_reason: str | None
    waited_seconds: float | None  # until now, if it has not started
    ran_seconds: float | None  # without the time between its attempts
    energy_kilowatt_hours: float | None  # of its GPUs, measured
    asked: Asked
    used: Used
    held_gpu_hours: float
    inferred_gpu_hours: float
    buckets: dict[str, float]
    money: Money | None
    currency: str
    machines: tuple[str, ...]
    attempts: tuple[dict[str, Any], ...]
    gpus: tuple[GpuUse, ...]
    diagnosis: dict[str, Any] | None
    incidents: tuple[dict[str, Any], ...]
    findings: tuple[dict[str, Any], ...]  # of its nodes, in its time
    changes: tuple[Change, ...]

    @property
    def lost_gpu_hours(self) -> float:
        return sum(self.buckets[bucket] for bucket in LOST)


def job_report(reader: LakeReader, config: Config, job: str, cluster: str | None = None) -> JobReport:
    reader.need(NEEDED)
    key, cluster = _found(reader, job, cluster)

    def rows(name: str) -> list[dict[str, Any]]:
        return reader.rows(SQL[name], job=job, cluster=cluster, job_key=key)

    (facts,) = rows("job")
    (plan,) = rows("asked")
    parts, attempts, accounting = rows("held"), rows("attempts"), rows("slurm")
    asked = _asked(plan, rows("models"), accounting)
    ran = _ran(facts, rows("runs"))
    used = _used(attempts, accounting, sum(ran) if ran else None, asked.gpus)
    gpus = tuple(GpuUse(**row) for row in rows("gpus"))
    joules = [gpu.energy_joules for gpu in gpus if gpu.energy_joules is not None]
    diagnosis = next(iter(rows("diagnoses")), None)
    killed = any(row["base_state"] == "OUT_OF_MEMORY" for row in accounting)
    killed = killed or (diagnosis is not None and diagnosis["reason"] == "HostOOMKilled")
    buckets = {bucket: float(sum(row[bucket] for row in parts)) for bucket in HELD}
    return JobReport(
        **facts,
        ran_seconds=sum(ran) if ran else None,
        energy_kilowatt_hours=sum(joules) / 3_600_000 if joules else None,
        asked=asked,
        used=used,
        held_gpu_hours=float(sum(row["held"] for row in parts)),
        inferred_gpu_hours=float(sum(row["inferred"] for row in parts)),
        buckets=buckets,
        money=money_of(parts, config.gpu_types),
        currency=config.currency,
        machines=tuple(dict.fromkeys(row["machine_id"] for row in attempts if row["machine_id"])),
        attempts=tuple(attempts),
        gpus=gpus,
        diagnosis=diagnosis,
        incidents=tuple(rows("incidents")),
        findings=tuple(rows("findings")) if "findings" in reader.tables() else (),
        changes=tuple(
            changes(facts["status"], max(ran, default=None), asked, used, buckets, gpus, config.idle_gpu_ratio, killed)
        ),
    )


def _found(reader: LakeReader, job: str, cluster: str | None) -> tuple[int, str]:
    """Its key and its cluster, if there is one such job."""
    found = reader.rows(SQL["found"], job=job, cluster=cluster)
    if len(found) > 1:
        clusters = [row["cluster_id"] for row in found]
        raise UsageError(
            f"job {job!r} is in {len(found)} clusters", f"choose one with --cluster: {', '.join(clusters)}"
        )
    if not found:
        alike = [row["job_id"] for row in reader.rows(SQL["alike"], job=job)]
        where = f" in cluster {cluster!r}" if cluster else ""
        look = "look for it: gpulake sql 'SELECT job_id FROM silver_jobs'"
        hint = f"choose from: {', '.join(alike)}" if alike else look
        raise UsageError(f"no job named {job!r}{where}", hint)
    return int(found[0]["job_key"]), str(found[0]["cluster_id"])


def _ran(facts: Row, runs: Sequence[Row]) -> list[float]:
    """How long it ran, a number for each stretch without a break; nothing if that is unknown."""
    until = facts["seen_until"] or facts["ended_at"]
    stretches: list[tuple[datetime, datetime]] = []
    for run in runs or [facts]:
        begin, end = run["started_at"], run["ended_at"] or until
        if begin is None or end is None:
            return []
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((begin, end))
    return [(end - begin).total_seconds() for begin, end in stretches]


def _asked(plan: Row, models: Sequence[Row], accounting: Sequence[Row]) -> Asked:
    model = next((row for row in models if row["gpu_type"] == plan["gpu_type"]), None)
    minutes = [row["limit_minutes"] for row in accounting if not row["step"] and row["limit_minutes"] is not None]
    return Asked(
        gpus=plan["gpus"],
        gpu_type=plan["gpu_type"],
        gpu_model=model["gpu_model"] if model else None,
        gpu_memory_bytes=model["memory_bytes"] if model else None,
        cores=plan["cores"],
        memory_bytes=plan["memory_bytes"],
        limit_seconds=60.0 * max(minutes) if minutes else None,
    )


def _used(
    attempts: Sequence[Row], accounting: Sequence[Row], ran_seconds: float | None, asked_gpus: float | None
) -> Used:
    seen = [row for row in attempts if row["used_gpus"] is not None and row["held_seconds"]]
    gpu_seconds = sum(row["used_gpus"] * row["held_seconds"] for row in seen)
    held_seconds = sum(row["gpus"] * row["held_seconds"] for row in seen)
    peaks = [row["peak_memory_bytes"] for row in attempts if row["peak_memory_bytes"] is not None]
    return Used(
        gpus=asked_gpus * gpu_seconds / held_seconds if held_seconds and asked_gpus else None,
        gpu_hours=gpu_seconds / 3600 if seen else None,
        cores=_cores(attempts, accounting, ran_seconds),
        peak_memory_bytes=sum(peaks) if peaks else _peak(accounting),
    )


def _cores(attempts: Sequence[Row], accounting: Sequence[Row], ran_seconds: float | None) -> float | None:
    measured = [row["used_cores"] for row in attempts if row["used_cores"] is not None]
    if measured:
        return float(sum(measured))
    # What Slurm counted over a run; of one that has not ended it counts nothing. The longest run says most.
    runs = [
        (spent, row["elapsed_seconds"] or ran_seconds)
        for row in accounting
        if not row["step"] and row["cpu_time"] and (spent := slurm.elapsed_seconds("", row["cpu_time"]))
    ]
    spent, seconds = max(runs, default=(0.0, None))
    return spent / seconds if seconds else None


def _peak(accounting: Sequence[Row]) -> int | None:
    """At most: every task of a step had the memory of its largest one."""
    peaks = [
        int(size * max(row["tasks"] or 1, 1))
        for row in accounting
        if row["peak_memory"] and (size := slurm.size_bytes(row["peak_memory"]))
    ]
    return max(peaks, default=None)
