"""An InfiniBand port that goes down, loses its speed or counts symbol errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm, flagged_points, period
from gpulake.detect.detectors.limit import Limit
from gpulake.detect.series import HOUR_MS, Detector, Scores, Series
from gpulake.detect.table_series import grouped, series_of
from gpulake.detect.watches import WATCHES, Read

# By hour. A port that never was up, or never faster, is as it is meant to be. A counter that fell was reset.
LIMITS = {"link_downs": 2.0, "symbol_errors": 100.0, "down_ratio": 0.5, "slow_ratio": 0.5}
HOURS = """
WITH steps AS (
    SELECT
        *,
        greatest(link_downed_total - lag(link_downed_total) OVER by_time, 0) AS downed,
        greatest(symbol_errors_total - lag(symbol_errors_total) OVER by_time, 0) AS symbols,
        bool_or(coalesce(is_up, false)) OVER by_time AS was_up,
        max(speed_bits_per_second) OVER by_time AS best_speed
    FROM silver_link_samples
    WHERE sampled_at IS NOT NULL AND coalesce(link_downed_total, symbol_errors_total) IS NOT NULL
    WINDOW by_time AS (PARTITION BY cluster_id, node_id, interface ORDER BY sampled_at)
),
hours AS (
    SELECT
        cluster_id, node_id, interface, epoch_ms(sampled_at) // 3600000 * 3600000 AS at_ms,
        sum(coalesce(downed, 0)) AS link_downs, sum(coalesce(symbols, 0)) AS symbol_errors,
        avg(CASE WHEN was_up AND NOT coalesce(is_up, true) THEN 1.0 ELSE 0.0 END) AS down_ratio,
        avg(CASE WHEN speed_bits_per_second < 0.75 * best_speed THEN 1.0 ELSE 0.0 END) AS slow_ratio
    FROM steps
    GROUP BY ALL
)
SELECT * FROM hours
SEMI JOIN (
    SELECT DISTINCT cluster_id, node_id, interface FROM hours
    WHERE link_downs >= 2 OR symbol_errors >= 100 OR down_ratio >= 0.5 OR slow_ratio >= 0.5
) AS bad USING (cluster_id, node_id, interface)
ORDER BY cluster_id, node_id, interface, at_ms
"""
WORDS = {
    "link_downs": "went down {:,.0f} times in an hour",
    "symbol_errors": "counted {:,.0f} symbol errors in an hour",
    "down_ratio": "was down for {:.0%} of an hour",
    "slow_ratio": "lost its speed for {:.0%} of an hour",
}

LIMIT = Limit(LIMITS, points=1)


@WATCHES.register("bad_links")
@dataclass(frozen=True)
class BadLinks:
    tables: tuple[str, ...] = ("silver_link_samples",)
    detector: Detector = LIMIT

    def series(self, read: Read, subject: str | None = None) -> Iterator[Series]:
        for (cluster, node, interface), rows in grouped(read(HOURS), ["cluster_id", "node_id", "interface"]):
            name = f"{node} {interface or ''}".strip()
            if subject in (None, name):
                yield series_of(name, rows, list(LIMITS), HOUR_MS, "", cluster, node)

    def describe(self, series: Series, scores: Scores, alarm: Alarm) -> Finding | None:
        most = series.values[flagged_points(series, scores, alarm)].max(axis=0).tolist()
        said = {name: value for name, value in zip(series.metrics, most, strict=True) if value >= LIMITS[name]}
        words = [WORDS[name].format(value) for name, value in said.items()]
        return Finding(
            kind="failing_link",
            subject=series.subject,
            headline=f"InfiniBand port {series.subject} {words[0]}, {period(series, alarm)}",
            detail="; ".join(words) + "; a healthy port does none of it",
            value=next(iter(said.values())),
            unit="ratio" if next(iter(said)).endswith("_ratio") else "events",
            remedy="reseat or replace the cable or transceiver, look at the switch port; drain the node for gangs",
        )


def example(subject: str) -> dict[str, list[dict[str, Any]]]:
    """Two days of a port, a sample every ten minutes; in the last hours its symbol errors grow."""
    begin = datetime(2026, 1, 5, tzinfo=UTC)
    return {
        "silver_link_samples": [
            {
                "cluster_id": "c",
                "node_id": subject,
                "interface": "mlx5_0",
                "sampled_at": begin + timedelta(minutes=10 * step),
                "link_downed_total": 1,
                "symbol_errors_total": 3 + 90 * max(0, step - 240),
                "is_up": True,
                "speed_bits_per_second": 4e11,
            }
            for step in range(288)
        ]
    }
