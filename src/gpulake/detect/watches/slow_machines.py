"""A machine on which everything takes longer than elsewhere.

A run is compared with the other runs of its recurrence group and role. A gang waits for its slowest worker, so that
peers of one job take equally long, and a gang on several machines does not show which of them is slow: only runs on one
machine count. A machine has a point a group and day: the natural logarithm of how many times longer its runs took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.drift import Drift
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, usual_interval_ms, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

LEAST_TIMES = 1.25
LEAST_RUNS = 5  # of a group, to have a usual duration
WINDOW_RUNS = 20
STRANGE_TIMES = 1.2  # over WINDOW_RUNS runs: other machines are not read
RUNS = """
WITH runs AS (
    SELECT
        task_key,
        any_value(job_key) AS job_key,
        any_value(task_name) AS task_name,
        any_value(machine_key) AS machine_key,
        min(started_at) AS started_at,
        ln(max(run_seconds)) AS took,
        min(machine_key) = max(machine_key) AND count(*) = count(machine_key) AS is_on_one_machine
    FROM silver_instances
    WHERE status = 'succeeded' AND run_seconds >= 1
    GROUP BY task_key
),
-- Groups are long texts and recur in every job: their hashes are compared instead.
tasks AS (
    SELECT
        runs.machine_key,
        hash(jobs.group_id) AS group_key,
        hash(jobs.group_id, runs.task_name) AS role_key,
        runs.started_at,
        runs.took,
        runs.is_on_one_machine
    FROM runs
    INNER JOIN silver_jobs AS jobs ON runs.job_key = jobs.job_key
    WHERE jobs.group_id IS NOT NULL AND runs.task_name IS NOT NULL
),
usual AS (
    SELECT role_key, median(took) AS took
    FROM tasks
    GROUP BY role_key
    HAVING count(*) >= {least_runs}
),
compared AS (
    SELECT
        tasks.machine_key,
        tasks.group_key,
        tasks.started_at,
        greatest(-1, least(1, tasks.took - usual.took)) AS log_times_longer
    FROM tasks
    INNER JOIN usual ON tasks.role_key = usual.role_key
    WHERE tasks.is_on_one_machine
),
days AS (
    SELECT
        machine_key,
        group_key,
        min(epoch_ms(started_at)) AS at_ms,
        avg(log_times_longer) AS log_times_longer
    FROM compared
    GROUP BY machine_key, group_key, date_trunc('day', started_at)
),
points AS (SELECT machine_key, at_ms, avg(log_times_longer) AS log_times_longer FROM days GROUP BY ALL),
windows AS (
    SELECT
        *,
        avg(log_times_longer) OVER (
            PARTITION BY machine_key ORDER BY at_ms ROWS BETWEEN {window} PRECEDING AND CURRENT ROW
        ) AS lately,
        median(log_times_longer) OVER (PARTITION BY machine_key) AS always
    FROM points
),
strange AS (
    SELECT machine_key
    FROM windows
    GROUP BY machine_key
    HAVING count(*) > {least_points} AND max(lately - always) >= ln({times})
)
SELECT machines.cluster_id, machines.machine_id, windows.at_ms, windows.log_times_longer
FROM windows
INNER JOIN strange ON windows.machine_key = strange.machine_key
INNER JOIN silver_machines AS machines ON windows.machine_key = machines.machine_key
ORDER BY machines.cluster_id, machines.machine_id, windows.at_ms
"""
# A few hundred runs have too short a tail to raise the threshold further.
LASTING = Drift(least_sum=15.0, most_sum=20.0)
ALARMING_RUNS = 5  # runs before the alarm that contributed to it


@WATCHES.register("slow_machines")
@dataclass(frozen=True)
class SlowMachines:
    tables: tuple[str, ...] = ("silver_instances", "silver_jobs", "silver_machines")
    detector: Detector = LASTING

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = RUNS.format(
            least_runs=LEAST_RUNS,
            window=WINDOW_RUNS - 1,
            least_points=LASTING.least_points,
            times=STRANGE_TIMES,
        )
        keys = ["cluster_id", "machine_id"]
        for series in series_by(read(query), keys, ["log_times_longer"], HOUR_MS, "log ratio", subject):
            yield replace(series, interval_ms=usual_interval_ms(series.times_ms))

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        is_flagged = flagged_points(series, scores, alarm)
        # The sum decays slowly: runs were slow until its last maximum.
        first = int(np.searchsorted(series.times_ms, alarm.begin_ms))
        highest = scores.score[is_flagged].max()
        last = int(np.flatnonzero(is_flagged & (scores.score >= 0.999 * highest))[-1])
        slow = series.values[max(first - ALARMING_RUNS, 0) : last + 1, 0]
        times = float(np.exp(np.median(slow) - scores.expected[is_flagged, 0].min()))
        alarm = replace(alarm, end_ms=int(series.times_ms[last]))
        if times < LEAST_TIMES:
            return None
        return Finding(
            kind="slow_machine",
            subject=series.subject,
            headline=(
                f"runs on machine {series.subject} took about {times:.1f} times as long as usual "
                f"{period(series, alarm)}"
            ),
            detail=f"{len(slow)} runs compared with others of the same groups, elsewhere and before",
            value=times,
            unit="times",
            ended_at=utc(alarm.end_ms + series.interval_ms),
            remedy="compare clocks, throttling and PCIe width with its neighbours; drain it and run a burn-in",
        )
