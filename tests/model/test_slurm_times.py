"""When a job of Slurm waited and ran: cancelled before it began, and in the hour that comes twice or never."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import built_from, rows_of
from model.expected import at, ledger
from model.sacct import CLUSTERS, dump, gpus, times

pytestmark = pytest.mark.slow


def row(number: int, start: str, end: str, elapsed: str = "", **others: str) -> dict[str, str]:
    found = {"JobID": str(number), "State": "COMPLETED", "AllocTRES": gpus(1), "NodeList": f"n{number}"}
    return {**found, **times("2024-01-01T00:00:00", start, end), "ElapsedRaw": elapsed, **others}


def test_a_job_that_is_cancelled_before_it_begins_did_not_wait_until_it_began(tmp_path: Path) -> None:
    never = {"State": "CANCELLED by 7", "AllocTRES": "", "ReqTRES": gpus(8), "NodeList": "None assigned"}
    never |= times("2024-05-01T10:00:00", "Unknown", "2024-05-06T10:00:00")
    as_it_ended = {**never, "Start": never["End"]}
    began = row(4, "2024-05-01T11:00:00", "2024-05-01T11:00:00", "0", State="CANCELLED by 7")
    began |= {"Submit": "2024-05-01T10:00:00", "Eligible": "2024-05-01T10:00:00", "AllocTRES": gpus(8)}
    rows = [
        {"JobID": "1", **never},
        {"JobID": "2", **as_it_ended, "ElapsedRaw": "0"},
        {"JobID": "3", **as_it_ended, "State": "DEADLINE"},
        began,
        {**began, "JobID": "5", "End": "2024-05-01T12:00:00", "ElapsedRaw": "3600"},
    ]
    lake = built_from(tmp_path, {"sacct.txt": dump(*rows)}, ["gold_queue_waits", "gold_demand_hourly"])
    hour = 3600.0
    found = rows_of(
        lake,
        "SELECT job_id, started_at IS NULL AS never, launch_wait_seconds AS wait, turnaround_seconds FROM silver_jobs "
        "ORDER BY 1",
    )
    assert [tuple(job.values()) for job in found] == [
        ("1", True, None, 120 * hour),
        ("2", True, None, 120 * hour),
        ("3", True, None, 120 * hour),
        ("4", False, hour, hour),
        ("5", False, hour, 2 * hour),
    ]
    waits = "tasks, start_wait_tasks, mean_start_wait_seconds AS mean, p99_start_wait_seconds AS p99, unstarted_tasks"
    assert rows_of(lake, f"SELECT {waits} FROM gold_queue_waits") == [
        {"tasks": 5, "start_wait_tasks": 2, "mean": hour, "p99": hour, "unstarted_tasks": 3}
    ]
    # They did wait for GPUs as long as they were in the queue, and held none.
    waited = "round(sum(waiting_gpu_hours), 6) AS waited, round(sum(held_gpu_hours), 6) AS held"
    assert rows_of(lake, f"SELECT {waited} FROM gold_demand_hourly") == [{"waited": 8.0 * (3 * 120 + 2), "held": 8.0}]


NIGHT = "2024-11-03T"  # at two o'clock of summer time it is one o'clock again in New York
AGAIN = [
    (row(1, f"{NIGHT}01:30:00", f"{NIGHT}01:30:00", "3600"), "05:30", "06:30"),
    (row(2, f"{NIGHT}00:30:00", f"{NIGHT}01:30:00", "3600"), "04:30", "05:30"),
    (row(3, f"{NIGHT}00:30:00", f"{NIGHT}01:30:00", "7200"), "04:30", "06:30"),
    (row(4, f"{NIGHT}01:30:00", f"{NIGHT}02:30:00", "3600"), "06:30", "07:30"),
    (row(5, f"{NIGHT}01:30:00", f"{NIGHT}02:30:00", "7200"), "05:30", "07:30"),
    (row(6, f"{NIGHT}01:50:00", f"{NIGHT}01:10:00"), "05:50", "06:10"),
    # It was suspended for half an hour.
    (row(7, f"{NIGHT}00:30:00", f"{NIGHT}01:30:00", "5400"), "04:30", "06:30"),
    (row(8, f"{NIGHT}04:00:00", f"{NIGHT}05:00:00", "600"), "09:00", "10:00"),
    # Either may be meant: the later.
    (row(9, f"{NIGHT}01:10:00", f"{NIGHT}01:40:00", "1800"), "06:10", "06:40"),
    # One has no end, the other an end before its begin.
    (row(10, f"{NIGHT}04:00:00", "Unknown", "600"), "09:00", "09:10"),
    (row(11, f"{NIGHT}04:00:00", f"{NIGHT}03:00:00", "600"), "09:00", "09:10"),
]
NEVER = "2024-03-10T"  # at two o'clock it is three o'clock
SKIPPED = [
    (row(12, f"{NEVER}02:30:00", f"{NEVER}03:30:00", "3600"), "06:30", "07:30"),
    (row(13, f"{NEVER}01:30:00", f"{NEVER}03:30:00", "3600"), "06:30", "07:30"),
]


def test_the_run_time_tells_which_of_two_hours_is_meant(tmp_path: Path) -> None:
    cases = [("2024-11-03", case) for case in AGAIN] + [("2024-03-10", case) for case in SKIPPED]
    lake = built_from(
        tmp_path, {"sacct.txt": dump(*(found for _, (found, _, _) in cases))}, ["silver_jobs"], clusters=CLUSTERS
    )
    jobs = rows_of(lake, "SELECT started_at, ended_at FROM silver_jobs ORDER BY job_id::int")
    assert [tuple(job.values()) for job in jobs] == [
        (at(f"{day} {start}:00"), at(f"{day} {end}:00")) for day, (_, start, end) in cases
    ]


def test_an_hour_in_which_the_clock_stood_still_is_held_and_used(tmp_path: Path) -> None:
    still = row(1, f"{NIGHT}01:30:00", f"{NIGHT}01:30:00", "3600")
    early = row(2, f"{NIGHT}00:50:00", f"{NIGHT}01:40:00", "3000")
    step = {**row(2, f"{NIGHT}01:05:00", f"{NIGHT}01:30:00", "1500"), "JobID": "2.0"}
    late = row(3, f"{NIGHT}01:30:00", f"{NIGHT}02:30:00", "3600")
    used = {"TRESUsageInAve": "gres/gpuutil=80", "NTasks": "1"}
    steps = [{**still, "JobID": "1.batch", **used}, {**step, **used}]
    steps += [{**row(3, f"{NIGHT}01:40:00", f"{NIGHT}02:10:00", "1800"), "JobID": "3.0", **used}]
    lake = built_from(tmp_path, {"sacct.txt": dump(still, early, late, *steps)}, clusters=CLUSTERS)
    found = rows_of(
        lake,
        "SELECT job_id, run_seconds, round(used_gpus, 6) FROM silver_jobs JOIN silver_instances USING (job_key) "
        "LEFT JOIN silver_instance_usage USING (worker_key) ORDER BY 1",
    )
    assert [tuple(job.values()) for job in found] == [("1", 3600.0, 0.8), ("2", 3000.0, 0.4), ("3", 3600.0, 0.4)]
    assert ledger(lake) == {"tiger": (pytest.approx(1 + 3000 / 3600 + 1), 0)}
