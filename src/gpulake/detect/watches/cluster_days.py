"""A day on which the machines of a cluster do far more, or far less, than they use to.

Each machine is held against its own usual day, and all count alike: one large job on a few machines, or a day on which
others were observed than usual, is not the cluster's. Poorly covered days are neither learned nor judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpulake.core.types import Finding
from gpulake.core.words import count
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.spell import Spell
from gpulake.detect.series import DAY_MS, Detector, Scores
from gpulake.detect.tabled import grouped, series_of
from gpulake.detect.telling import at, moment, peak
from gpulake.detect.watches import WATCHES, Read, Watched
from gpulake.detect.watches.cluster_hours import REMEDY

LEAST_TIMES = 1.15
MOST_TIMES = 2.0  # that one machine counts: an idle one that is used for a day would outweigh all others
IDLE_RATIO = 0.01  # what does less is as good as idle
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
ASIDE = Spell(windows=(1, 2), least_deviations=4.5, least_spread=0.02)


@WATCHES.register("cluster_days")
@dataclass(frozen=True)
class ClusterDays:
    tables: tuple[str, ...] = ("gold_cluster_util_daily", "silver_days", "silver_machine_stretches", "silver_machines")
    detector: Detector = ASIDE

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        for (cluster,), rows in grouped(read(DAYS.format(idle=IDLE_RATIO, times=MOST_TIMES)), ["cluster_id"]):
            if subject in (None, cluster):
                yield Watched(series_of(cluster, rows, ["log_times_busier"], DAY_MS), "log ratio", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        seen = peak(watched.series, scores, alarm)
        cluster = watched.series.subject
        times = float(np.exp(seen.value - seen.expected))
        if max(times, 1 / times) < LEAST_TIMES:
            return None
        # Wherever the cluster is, its noon is about as far from its midnight; no place is twelve hours off its own day.
        day = at(alarm.peak_ms + NOON_MS)
        return Finding(
            kind="unusual_utilisation",
            subject=cluster,
            headline=(
                f"on {day:%A, %Y-%m-%d} the machines of {cluster} were {times:.2f} times as busy "
                f"as they usually are on a {day:%A}"
            ),
            detail=f"{count(seen.flagged, 'day')} from {moment(alarm.begin_ms)} on; poorly covered days are left out",
            value=times,
            unit="times",
            day=f"{at(alarm.begin_ms + NOON_MS):%Y-%m-%d}",
            severity="warning",
            remedy=REMEDY,
        )
