"""Machines that lost all they ran at one moment and then stood still, far longer than they use to.

The series of a cluster has a metric for each such machine, a counter of hours of silence; machines that died in the
same hour are one alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.series import Detector, Scores, Series
from gpulake.detect.tabled import HOUR_MS, grouped, numbers, whole
from gpulake.detect.telling import at, moment, named
from gpulake.detect.watches import WATCHES, Read, Watched

LEAST_LOST = 2  # what fails alone fails every day
LEAST_SILENT_HOURS = 3
MOST_SURPRISE = 5.0  # of one machine's silence, as one in 150: jobs come in crowds, and less cannot be told from chance
EXPECTED_BY_CHANCE = 0.2  # losses as large, with silences as unlikely, in all of a cluster's past
# What is inferred is no sign of life. Silence lasts until the next begin or end that was recorded. Machines that lost
# all they ran at the same moment, and then were silent for hours, are judged together. Their silence beyond these hours
# is as unlikely as it is that of all jobs that began on machines of their type meanwhile none came to them. It must be
# the less likely, the more often as much was lost before such hours. What was interrupted went with its gang.
DEATHS = """
WITH recorded_ends AS (
    SELECT
        cluster_id,
        machine_key,
        held_until AS happened_at,
        count(*) FILTER (status IN ('failed', 'node_fail')) AS lost,
        count(*) FILTER (status NOT IN ('failed', 'node_fail', 'interrupted')) AS others
    FROM silver_holdings
    WHERE end_basis = 'recorded' AND machine_key IS NOT NULL
    GROUP BY ALL
),
losses AS (SELECT * EXCLUDE (others) FROM recorded_ends WHERE lost > 0 AND others = 0),
begins AS (
    SELECT
        holdings.cluster_id,
        holdings.machine_key,
        holdings.job_key,
        holdings.held_from,
        coalesce(machines.gpu_type, '') AS gpu_type
    FROM silver_holdings AS holdings
    INNER JOIN silver_machines AS machines ON holdings.machine_key = machines.machine_key
    WHERE holdings.start_basis IN ('recorded', 'metric')
),
signs AS (
    SELECT machine_key, happened_at FROM recorded_ends
    UNION ALL
    SELECT machine_key, held_from FROM begins
),
silences AS (
    SELECT
        losses.*,
        coalesce(signs.happened_at, greatest(clusters.observed_until, losses.happened_at)) AS silent_until
    FROM losses
    INNER JOIN silver_clusters AS clusters ON losses.cluster_id = clusters.cluster_id
    ASOF LEFT JOIN signs ON losses.machine_key = signs.machine_key AND losses.happened_at < signs.happened_at
),
-- A job arrives at machines of a type once.
arrivals AS (
    SELECT cluster_id, gpu_type, job_key, min(held_from) AS began_at
    FROM begins
    GROUP BY ALL
),
arrived AS (
    SELECT
        cluster_id,
        gpu_type,
        began_at,
        sum(count(*)) OVER (PARTITION BY cluster_id, gpu_type ORDER BY began_at) AS jobs,
        sum(count(*)) OVER (PARTITION BY cluster_id, gpu_type) AS all_jobs
    FROM arrivals
    GROUP BY cluster_id, gpu_type, began_at
),
shares AS (SELECT machine_key, gpu_type, count(DISTINCT job_key) AS jobs FROM begins GROUP BY ALL),
long_silences AS (
    SELECT
        silences.*,
        shares.gpu_type,
        shares.jobs AS own_jobs,
        silences.happened_at + to_seconds({hours} * 3600) AS judged_from,
        sum(silences.lost) OVER (PARTITION BY silences.cluster_id, silences.happened_at) AS lost_at_once
    FROM silences
    LEFT JOIN shares ON silences.machine_key = shares.machine_key
    WHERE silences.silent_until >= silences.happened_at + to_seconds({hours} * 3600)
),
as_large AS (
    SELECT
        cluster_id,
        lost_at_once,
        sum(count(DISTINCT happened_at)) OVER (PARTITION BY cluster_id ORDER BY lost_at_once DESC) AS losses
    FROM long_silences
    GROUP BY cluster_id, lost_at_once
),
from_then AS (
    SELECT long_silences.*, coalesce(arrived.jobs, 0) AS jobs_before
    FROM long_silences
    ASOF LEFT JOIN arrived
        ON
            long_silences.cluster_id = arrived.cluster_id
            AND long_silences.gpu_type = arrived.gpu_type
            AND long_silences.judged_from >= arrived.began_at
),
judged AS (
    SELECT
        from_then.*,
        least(
            {most},
            coalesce(
                -ln(1 - least(from_then.own_jobs / arrived.all_jobs, 0.5)) * (arrived.jobs - from_then.jobs_before), 0
            )
        ) AS surprise
    FROM from_then
    ASOF LEFT JOIN arrived
        ON
            from_then.cluster_id = arrived.cluster_id
            AND from_then.gpu_type = arrived.gpu_type
            AND from_then.silent_until > arrived.began_at
),
together AS (
    SELECT *, sum(surprise) OVER (PARTITION BY cluster_id, happened_at) AS surprise_at_once
    FROM judged
)
SELECT
    together.cluster_id,
    machines.machine_id,
    epoch_ms(together.happened_at) AS at_ms,
    (epoch(together.silent_until) - epoch(together.happened_at)) / 3600 AS hours
FROM together
INNER JOIN as_large ON together.cluster_id = as_large.cluster_id AND together.lost_at_once = as_large.lost_at_once
INNER JOIN silver_machines AS machines ON together.machine_key = machines.machine_key
WHERE together.lost_at_once >= {lost} AND as_large.losses * exp(-together.surprise_at_once) <= {by_chance}
ORDER BY together.cluster_id, at_ms, machines.machine_id
"""
BEGINS = "SELECT cluster_id, epoch_ms(observed_from) AS at_ms FROM silver_clusters"
SILENCE = Burst(window_points=1, least_points=24)


@WATCHES.register("dead_machines")
@dataclass(frozen=True)
class DeadMachines:
    tables: tuple[str, ...] = ("silver_holdings", "silver_machines", "silver_clusters")
    detector: Detector = SILENCE

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        query = DEATHS.format(
            lost=LEAST_LOST, hours=LEAST_SILENT_HOURS, most=MOST_SURPRISE, by_chance=EXPECTED_BY_CHANCE
        )
        deaths = read(query)
        begins = {row["cluster_id"]: row["at_ms"] for row in read(BEGINS).to_pylist()} if deaths.num_rows else {}
        for (cluster,), rows in grouped(deaths, ["cluster_id"]):
            if subject in (None, cluster):
                yield Watched(_counters(cluster, begins[cluster], rows), "hours", cluster)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        series = watched.series
        first, last = np.searchsorted(series.times_ms, [alarm.begin_ms, alarm.end_ms]).tolist()
        silent = np.where(
            scores.shares[first : last + 1].any(axis=0), series.values[last] - series.values[first - 1], 0.0
        )
        dead = [series.metrics[place] for place in np.flatnonzero(silent > 0).tolist()]
        hours = float(silent.max())
        names = named(dead)
        if len(dead) == 1:
            who, it, most, hint = (
                f"machine {names}",
                "it",
                "",
                "look at its power, network and cooling; drain it until it is",
            )
        else:
            who, it, most = f"{len(dead)} machines ({names})", "they", "up to "
            hint = "look at the power, switch and cooling that they share; drain them until they are"
        return Finding(
            kind="dead_machines",
            subject=names,
            headline=(
                f"{who} lost all {it} ran at {moment(alarm.begin_ms)} and stood still for {most}{hours:,.0f} hours"
            ),
            detail="everything there failed at one moment, and the silence after it is far longer than usual there",
            value=hours,
            unit="hours",
            severity="critical",
            remedy=f"{hint} tested",
            node=dead[0] if len(dead) == 1 else None,
            ended_at=at(alarm.end_ms) + timedelta(hours=hours),
        )


def _counters(cluster: str, begin_ms: int, deaths: pa.Table) -> Series:
    """A point an hour, at the moment of the death where there is one; a counter of silent hours for each machine."""
    names = deaths["machine_id"].to_pylist()
    machines = sorted(set(names))
    moments = whole(deaths, "at_ms")
    places = np.maximum((moments - begin_ms) // HOUR_MS, 0)
    times = begin_ms + np.arange(int(places[-1]) + 1, dtype=np.int64) * HOUR_MS
    hours = np.zeros((len(times), len(machines)))
    for name, place, moment_ms, silent in zip(
        names, places.tolist(), moments.tolist(), numbers(deaths, "hours").tolist(), strict=True
    ):
        hours[place, machines.index(name)] += silent
        times[place] = max(int(times[place]), moment_ms)
    return Series(cluster, tuple(machines), times, np.cumsum(hours, axis=0), HOUR_MS)
