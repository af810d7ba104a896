"""Machines on which everything failed at one moment and that then ran nothing, for far longer than usual.

The series of a cluster has a metric for each such machine, a counter of silent hours; machines that died in the same
hour are one alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, first_names, places_of, time_text
from gpulake.detect.detectors.burst import Burst
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series, utc
from gpulake.detect.table_series import floats, grouped, integers
from gpulake.detect.watches import WATCHES, Read

# The ledger defines what counts as a death, so that findings agree with its downtime: docs/ledger.md.
DEATHS = """
SELECT
    outages.cluster_id,
    machines.machine_id,
    epoch_ms(outages.started_at) AS at_ms,
    (epoch(outages.ended_at) - epoch(outages.started_at)) / 3600 AS hours
FROM silver_outages AS outages
INNER JOIN silver_machines AS machines ON outages.machine_key = machines.machine_key
WHERE outages.basis = 'died'
ORDER BY outages.cluster_id, at_ms, machines.machine_id
"""
BEGINS = "SELECT cluster_id, epoch_ms(observed_from) AS at_ms FROM silver_clusters"
SILENCE = Burst(window_points=1, least_points=24)


@WATCHES.register("dead_machines")
@dataclass(frozen=True)
class DeadMachines:
    tables: tuple[str, ...] = ("silver_outages", "silver_machines", "silver_clusters")
    detector: Detector = SILENCE

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        deaths = read(DEATHS)
        begins = {row["cluster_id"]: row["at_ms"] for row in read(BEGINS).to_pylist()} if deaths.num_rows else {}
        for (cluster,), rows in grouped(deaths, ["cluster_id"]):
            if subject in (None, cluster):
                yield _counters(cluster, begins[cluster], rows)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        first, last = places_of(series, alarm)
        silent = np.where(
            scores.shares[first : last + 1].any(axis=0), series.values[last] - series.values[first - 1], 0.0
        )
        dead = [series.metrics[place] for place in np.flatnonzero(silent > 0).tolist()]
        hours = float(silent.max())
        names = first_names(dead)
        if len(dead) == 1:
            who, it, most = f"machine {names}", "it", ""
            remedy = "look at its power, network and cooling; drain it until it is tested"
        else:
            who, it, most = f"{len(dead)} machines ({names})", "they", "up to "
            remedy = "look at the power, switch and cooling that they share; drain them until they are tested"
        return Finding(
            kind="dead_machines",
            subject=names,
            headline=(
                f"{who} lost all {it} ran at {time_text(alarm.begin_ms)} and stood still for {most}{hours:,.0f} hours"
            ),
            detail="everything there failed at one moment, and the silence after it is far longer than usual there",
            value=hours,
            unit="hours",
            remedy=remedy,
            node=dead[0] if len(dead) == 1 else None,
            ended_at=utc(alarm.end_ms) + timedelta(hours=hours),
        )


def _counters(cluster: str, begin_ms: int, deaths: pa.Table) -> Series:
    """A point an hour, at the time of the death where there is one; a counter of silent hours for each machine."""
    names = deaths["machine_id"].to_pylist()
    machines = sorted(set(names))
    moments = integers(deaths, "at_ms")
    places = np.maximum((moments - begin_ms) // HOUR_MS, 0)
    times = begin_ms + np.arange(int(places[-1]) + 1, dtype=np.int64) * HOUR_MS
    hours = np.zeros((len(times), len(machines)))
    for name, place, moment_ms, silent in zip(
        names, places.tolist(), moments.tolist(), floats(deaths, "hours").tolist(), strict=True
    ):
        hours[place, machines.index(name)] += silent
        times[place] = max(int(times[place]), moment_ms)
    return Series(cluster, tuple(machines), times, np.cumsum(hours, axis=0), HOUR_MS, "hours", cluster)
