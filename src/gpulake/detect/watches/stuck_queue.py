"""Jobs of a partition wait for hours in which none of them starts, though GPUs of its machines are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.packaged import packaged_text
from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import grouped, series_of
from gpulake.detect.watches import WATCHES, Read

LEAST_FREE = 0.3  # of the GPUs of the partition's machines that are in service
MOST_ASKED = 0.5  # of the free GPUs, by a job that should have started; what it asks for of one machine is free there
LEAST_WAITING = 4.0  # GPUs, and a twentieth of those in service
LEAST_STARTS = 1.0  # an hour on average: in a partition where little starts, a quiet hour says nothing
HOURS = packaged_text("gpulake.detect.watches", "stuck_queue.sql")
STUCK = Limit({"stuck_gpus": 1.0}, points=3)


@WATCHES.register("stuck_queue")
@dataclass(frozen=True)
class StuckQueue:
    tables: tuple[str, ...] = ("gold_machine_hours", "silver_instances", "silver_jobs", "silver_tasks")
    detector: Detector = STUCK

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        rows = read(
            HOURS.format(
                least_waiting=LEAST_WAITING, least_free=LEAST_FREE, least_starts=LEAST_STARTS, most_asked=MOST_ASKED
            )
        )
        for (cluster, partition), here in grouped(rows, ["cluster_id", "partition_id"]):
            name = f"{cluster} {partition}" if partition else cluster
            if subject in (None, name):
                yield series_of(name, here, ["stuck_gpus"], HOUR_MS, "GPUs", cluster)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        most = float(series.values[flagged_points(series, scores, alarm)].max())
        where = series.subject.removeprefix(f"{series.cluster_id} ")
        what = "nothing" if where == series.subject else f"nothing of partition {where}"
        since = period(series, alarm)
        return Finding(
            kind="stuck_queue",
            subject=series.subject,
            headline=f"{what} starts on {series.cluster_id} {since}, and jobs wait for {most:,.0f} GPUs",
            detail="no attempt started, though far more GPUs were free than each of these jobs asked for",
            value=most,
            unit="GPUs",
            remedy="look at the scheduler (is it up? a reservation, a limit, a partition that is closed?) and its log",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Three days of starts every hour on a machine of 32 GPUs; then nothing starts, and four jobs wait."""
    begin, last = datetime(2026, 1, 5, tzinfo=UTC), 67
    about = {"cluster_id": subject, "requested_gpus": 1.0}
    tasks = [
        about
        | {"job_key": key, "launched_at": begin + timedelta(hours=key / 3), "status": "succeeded"}
        | {"started_at": begin + timedelta(hours=key / 3, minutes=5)}
        for key in range(3 * last)
    ] + [
        about | {"job_key": 3 * last + one, "launched_at": begin + timedelta(hours=last - 0.5), "status": "waiting"}
        for one in range(4)
    ]
    return {
        "silver_jobs": [{"cluster_id": subject, "job_key": task["job_key"]} for task in tasks],
        "silver_tasks": tasks,
        "silver_instances": [
            {"cluster_id": subject, "job_key": task["job_key"], "machine_key": 1, "gpus": 1.0}
            | {"started_at": task["started_at"]}
            for task in tasks[: 3 * last]
        ],
        "gold_machine_hours": [
            {"cluster_id": subject, "machine_key": 1, "started_at": begin + timedelta(hours=hour)}
            | {"capacity_gpu_hours": 32.0, "down_gpu_hours": 0.0, "unallocated_gpu_hours": 16.0}
            for hour in range(72)
        ],
    }
