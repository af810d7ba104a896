"""A machine on which everything takes longer than it takes elsewhere.

A run is held against the other runs of its recurrence group and role. A gang waits for its slowest worker: peers of
the same job would tell nothing, and a gang that ran on several machines does not tell which of them is slow, so that
only what ran on one machine counts. A machine's points are its groups, day by day: the natural logarithm of how many
times longer their runs took there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.drift import Drift
from gpulake.detect.series import Detector, Scores, usual_interval_ms
from gpulake.detect.tabled import grouped, series_of, whole
from gpulake.detect.telling import at, flagged, when
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_TIMES = 1.25
LEAST_RUNS = 5  # of a group, to know what is usual
WINDOW_RUNS = 20
STRANGE_TIMES = 1.2  # over so many runs: others are not read
# Only machines are read that ever had some days of slow runs.
RUNS = """
WITH runs AS (
    SELECT
        attempts.machine_key,
        jobs.group_id,
        attempts.task_name,
        attempts.task_key,
        min(attempts.started_at) AS started_at,
        ln(max(attempts.run_seconds)) AS took
    FROM silver_instances AS attempts
    INNER JOIN silver_jobs AS jobs ON attempts.job_key = jobs.job_key
    WHERE attempts.status = 'succeeded' AND attempts.run_seconds >= 1 AND jobs.group_id IS NOT NULL
    GROUP BY ALL
),
tasks AS (SELECT group_id, task_name, task_key, max(took) AS took, count(*) AS machines FROM runs GROUP BY ALL),
usual AS (
    SELECT group_id, task_name, median(took) AS took
    FROM tasks
    GROUP BY group_id, task_name
    HAVING count(*) >= {least_runs}
),
compared AS (
    SELECT
        runs.machine_key,
        runs.group_id,
        runs.started_at,
        greatest(-1, least(1, runs.took - usual.took)) AS log_times_longer
    FROM runs
    INNER JOIN usual ON runs.group_id = usual.group_id AND runs.task_name = usual.task_name
    WHERE runs.task_key IN (SELECT task_key FROM tasks WHERE machines = 1)
),
days AS (
    SELECT
        machine_key,
        group_id,
        min(epoch_ms(started_at)) AS at_ms,
        avg(log_times_longer) AS log_times_longer
    FROM compared
    GROUP BY machine_key, group_id, date_trunc('day', started_at)
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
# Runs do not come in waves, and some hundred of them have too short a tail for more.
LASTING = Drift(least_sum=15.0, most_sum=20.0)
ALARMING_RUNS = 5  # as few may have raised the alarm with which it begins


@WATCHES.register("slow_machines")
@dataclass(frozen=True)
class SlowMachines:
    tables: tuple[str, ...] = ("silver_instances", "silver_jobs", "silver_machines")
    detector: Detector = LASTING

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        query = RUNS.format(
            least_runs=LEAST_RUNS,
            window=WINDOW_RUNS - 1,
            least_points=LASTING.least_points,
            times=STRANGE_TIMES,
        )
        for (cluster, machine), rows in grouped(read(query), ["cluster_id", "machine_id"]):
            if subject in (None, machine):
                interval = usual_interval_ms(whole(rows, "at_ms"))
                series = series_of(machine, rows, ["log_times_longer"], interval)
                yield Watched(series, "log ratio", cluster, machine)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        series, is_flagged = watched.series, flagged(watched.series, scores, alarm)
        # The sum wears off slowly: runs were slow until it last was at its highest.
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
                f"runs on machine {series.subject} took about {times:.1f} times as long as usual {when(series, alarm)}"
            ),
            detail=f"{len(slow)} runs held against others of the same groups, elsewhere and before",
            value=times,
            unit="times",
            severity="warning",
            ended_at=at(alarm.end_ms + series.interval_ms),
            remedy="compare clocks, throttling and PCIe width with its neighbours; drain it and run a burn-in",
        )
