"""A machine that the scheduler reports out of service, or that goes and comes back again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import series_by
from gpulake.detect.watches import WATCHES, Read

FLAPS = 3  # outages that began within a day
# Maintenance is planned, and what a person drains that person knows of: only the rest is reported here.
HOURS = """
WITH planned AS (
    SELECT machine_key, started_at, ended_at FROM silver_machine_states WHERE condition IN ('maintenance', 'drained')
),
outages AS (
    SELECT outages.cluster_id, outages.machine_key, capacity.machine_id, outages.started_at, outages.ended_at
    FROM silver_outages AS outages
    INNER JOIN silver_capacity AS capacity ON outages.machine_key = capacity.machine_key
    ANTI JOIN planned
        ON outages.machine_key = planned.machine_key
        AND planned.started_at <= outages.started_at AND planned.ended_at >= outages.ended_at
    WHERE outages.basis = 'reported' AND capacity.machine_id IS NOT NULL
),
machines AS (SELECT DISTINCT cluster_id, machine_key, machine_id FROM outages)
SELECT
    machines.cluster_id, machines.machine_id, epoch_ms(hours.started_at) AS at_ms,
    sum(greatest(
        epoch(least(outages.ended_at, hours.ended_at)) - epoch(greatest(outages.started_at, hours.started_at)), 0
    )) / 3600 AS down_ratio,
    count_if(
        outages.started_at < hours.ended_at AND outages.started_at >= hours.ended_at - INTERVAL 1 DAY
    ) AS outages_a_day
FROM machines
INNER JOIN silver_hours AS hours ON machines.cluster_id = hours.cluster_id
INNER JOIN outages ON machines.machine_key = outages.machine_key
GROUP BY ALL
ORDER BY machines.cluster_id, machines.machine_id, at_ms
"""

OUTAGES = Limit({"down_ratio": 0.9, "outages_a_day": float(FLAPS)}, points=1)


@WATCHES.register("lost_nodes")
@dataclass(frozen=True)
class LostNodes:
    tables: tuple[str, ...] = ("silver_outages", "silver_capacity", "silver_hours", "silver_machine_states")
    detector: Detector = OUTAGES

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        metrics = ["down_ratio", "outages_a_day"]
        return series_by(read(HOURS), ["cluster_id", "machine_id"], metrics, HOUR_MS, "hours", subject)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        flagged = series.values[flagged_points(series, scores, alarm)]
        hours, outages = float(flagged[:, 0].sum()), int(flagged[:, 1].max())
        if outages >= FLAPS:
            headline = f"machine {series.subject} went out of service {outages} times within a day"
            remedy = "drain it until its power, network and boards are tested: jobs that it takes will be lost"
        else:
            headline = f"the scheduler reported machine {series.subject} out of service {period(series, alarm)}"
            remedy = "read the reason that the scheduler gives; look at its power, network and the node's log"
        return Finding(
            kind="node_down",
            subject=series.subject,
            headline=headline,
            detail=f"out of service for {hours:,.1f} hours in that time; maintenance and drained nodes do not count",
            value=float(outages) if outages >= FLAPS else hours,
            unit="outages" if outages >= FLAPS else "hours",
            remedy=remedy,
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Two days; the machine is down for eight hours of the second, another is in maintenance."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)

    def down(key: int, condition: str) -> dict[str, Any]:
        span = {"started_at": begin + timedelta(hours=30), "ended_at": begin + timedelta(hours=38)}
        return {"cluster_id": "c", "machine_key": key, "condition": condition, "basis": "reported", **span}

    return {
        "silver_outages": [
            {name: value for name, value in down(key, "").items() if name != "condition"} for key in (1, 2)
        ],
        "silver_machine_states": [down(1, "down"), down(2, "maintenance")],
        "silver_capacity": [
            {"cluster_id": "c", "machine_key": 1, "machine_id": subject},
            {"cluster_id": "c", "machine_key": 2, "machine_id": "other"},
        ],
        "silver_hours": [
            {
                "cluster_id": "c",
                "started_at": begin + timedelta(hours=hour),
                "ended_at": begin + timedelta(hours=hour + 1),
            }
            for hour in range(48)
        ],
    }
