"""A day on which the machines of a cluster do far more, or far less, than usual.

Each machine is compared with its own usual day, and all count alike: one large job on a few machines, or other machines
observed than usual, does not make the cluster's day unusual. Poorly covered days are neither learned nor scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.types import Finding
from gpulake.core.words import count
from gpulake.detect.alarms import Alarm, peak_of, time_text
from gpulake.detect.detectors.spell import Spell
from gpulake.detect.series import DAY_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read
from gpulake.detect.watches.cluster_hours import REMEDY

LEAST_TIMES = 1.15
MOST_TIMES = 2.0  # clip of one machine: an idle one that is used for a day would outweigh all others
IDLE_RATIO = 0.01  # a machine that does less counts as idle
DAYS = """
WITH machine_days AS (
    SELECT
        stretches.cluster_id,
        stretches.dt,
        stretches.machine_key,
        greatest(sum(stretches.seconds * stretches.busy_gpus) / (sum(stretches.seconds) * machines.gpus), {idle})
            AS busy_ratio
    FROM silver_machine_stretches AS stretches
    INNER JOIN silver_machines AS machines ON stretches.machine_key = machines.machine_key
    WHERE stretches.busy_gpus IS NOT NULL AND stretches.seconds > 0 AND machines.gpus > 0
    GROUP BY stretches.cluster_id, stretches.dt, stretches.machine_key, machines.gpus
),
usual AS (SELECT machine_key, median(busy_ratio) AS busy_ratio FROM machine_days GROUP BY machine_key),
days AS (
    SELECT
        machine_days.cluster_id,
        machine_days.dt,
        avg(greatest(-ln({times}), least(ln({times}), ln(machine_days.busy_ratio / usual.busy_ratio))))
            AS log_times_busier
    FROM machine_days
    INNER JOIN usual ON machine_days.machine_key = usual.machine_key
    GROUP BY machine_days.cluster_id, machine_days.dt
)
SELECT
    daily.cluster_id,
    epoch_ms(calendar.started_at) AS at_ms,
    CASE WHEN NOT daily.is_poorly_covered THEN days.log_times_busier END AS log_times_busier
FROM gold_cluster_util_daily AS daily
INNER JOIN silver_days AS calendar ON daily.cluster_id = calendar.cluster_id AND daily.dt = calendar.dt
LEFT JOIN days ON daily.cluster_id = days.cluster_id AND daily.dt = days.dt
ORDER BY daily.cluster_id, at_ms
"""
NOON_MS = DAY_MS // 2
UNUSUAL = Spell(windows=(1, 2), least_deviations=4.5, least_spread=0.02)


@WATCHES.register("cluster_days")
@dataclass(frozen=True)
class ClusterDays:
    tables: tuple[str, ...] = ("gold_cluster_util_daily", "silver_days", "silver_machine_stretches", "silver_machines")
    detector: Detector = UNUSUAL

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        query = DAYS.format(idle=IDLE_RATIO, times=MOST_TIMES)
        return series_by(read(query), ["cluster_id"], ["log_times_busier"], DAY_MS, "log ratio", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak_of(series, scores, alarm)
        times = float(np.exp(seen.value - seen.expected))
        if max(times, 1 / times) < LEAST_TIMES:
            return None
        # At noon the date is the same in UTC and at the cluster, whatever its zone.
        day = utc(alarm.peak_ms + NOON_MS)
        return Finding(
            kind="unusual_utilisation",
            subject=series.subject,
            headline=(
                f"on {day:%A, %Y-%m-%d} the machines of {series.subject} were {times:.2f} times as busy "
                f"as they usually are on a {day:%A}"
            ),
            detail=f"{count(seen.flagged, 'day')} from {time_text(alarm.begin_ms)} on; poorly covered days left out",
            value=times,
            unit="times",
            day=f"{utc(alarm.begin_ms + NOON_MS):%Y-%m-%d}",
            remedy=REMEDY,
        )
