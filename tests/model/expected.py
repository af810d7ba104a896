"""Rows of silver as a test expects them: all columns but the keys that join them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from conftest import rows_of
from gpulake.lake import Lake

Row = dict[str, object]
HELD = "idle_gpu_hours + under_used_gpu_hours + lost_gpu_hours + unobserved_gpu_hours + used_gpu_hours"


def at(text: str) -> datetime:
    """`2023-03-01 00:18:22`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def seconds(begin: object, end: object) -> float | None:
    return (end - begin).total_seconds() if isinstance(begin, datetime) and isinstance(end, datetime) else None


def job(
    cluster_id: str,
    job_id: str,
    status: str,
    submitted_at: datetime | None,
    started_at: datetime | None,
    ended_at: datetime | None,
    **others: object,
) -> Row:
    return {
        "cluster_id": cluster_id,
        "job_id": job_id,
        "user_id": None,
        "group_id": others.get("user_id"),
        "workload": None,
        "account_id": None,
        "requested_gpu_type": None,
        "status": status,
        "submitted_at": submitted_at,
        "started_at": started_at,
        "ended_at": ended_at,
        "launch_wait_seconds": seconds(submitted_at, started_at),
        "turnaround_seconds": seconds(submitted_at, ended_at),
        **dict.fromkeys(("partition_id", "qos_id", "reservation_id", "wait_reason")),
        **others,
    }


def task(of: Row, instances: int, gpus: float, gpu_type: str | None, **others: object) -> Row:
    """The one task of a job that waits from its submission on."""
    return {
        "cluster_id": of["cluster_id"],
        "job_id": of["job_id"],
        "task_name": "job",
        "planned_instances": instances,
        "status": of["status"],
        "launched_at": of["submitted_at"],
        "started_at": of["started_at"],
        "ended_at": of["ended_at"],
        "launch_wait_seconds": 0.0,
        "start_wait_seconds": of["launch_wait_seconds"],
        "requested_cores": None,
        "requested_memory_bytes": None,
        "requested_gpus": gpus,
        "gpu_type": gpu_type,
        **others,
    }


def attempt(of: Row, gpus: float, gpu_type: str | None, **others: object) -> Row:
    row: Row = {
        "cluster_id": of["cluster_id"],
        "task_name": "job",
        "attempt": 1,
        "status": of["status"],
        "started_at": of["started_at"],
        "ended_at": of["ended_at"],
        "gpus": gpus,
        "gpu_type": gpu_type,
        **others,
    }
    return {**row, "run_seconds": seconds(row["started_at"], row["ended_at"])}


def holding(of: Row, bucket: str, **others: object) -> Row:
    """What an attempt whose times are known holds."""
    row: Row = {name: of[name] for name in ("cluster_id", "attempt", "gpu_type", "status", "gpus")}
    row |= {"used_gpus": None, "bucket": bucket, "held_from": of["started_at"], "held_until": of["ended_at"]}
    is_lost = bucket in ("failed", "timed_out", "interrupted")
    row |= {"use_bucket": "unobserved" if is_lost else bucket, "lost_from": of["started_at"] if is_lost else None}
    row |= {"has_checkpoint": False}
    row |= {"start_basis": "recorded", "end_basis": "recorded", "is_inferred": False, **others}
    return {**row, "held_seconds": seconds(row["held_from"], row["held_until"])}


def same(found: list[Row], expected: list[Row]) -> bool:
    """The same rows in any order."""
    return sorted(map(_text, found)) == sorted(map(_text, expected))


def _text(row: Row) -> str:
    return str(
        sorted((name, value.astimezone(UTC) if isinstance(value, datetime) else value) for name, value in row.items())
    )


def ledger(lake: Lake) -> dict[object, tuple[object, object]]:
    """By cluster: the GPU-hours held and down, of a ledger that closes."""
    total = f"sum({HELD}) AS held, sum(down_gpu_hours) AS down, sum(unallocated_gpu_hours + unknown_gpu_hours) AS free"
    rows = rows_of(
        lake, f"SELECT cluster_id, {total}, sum(capacity_gpu_hours) AS all FROM gold_ledger_hourly GROUP BY 1"
    )
    for row in rows:
        assert float(str(row["held"])) + float(str(row["down"])) + float(str(row["free"])) == pytest.approx(row["all"])
    return {row["cluster_id"]: (row["held"], row["down"]) for row in rows}
