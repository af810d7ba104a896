"""Jobs that hold GPUs without using them, as last observed; and the steps taken about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from gpulake.core.config import Config
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.types import NudgeRecord
from gpulake.lake import LakeReader

NEEDED = {"silver_capacity", "silver_clusters", "silver_holdings", "silver_jobs"}
CLUSTERS = "SELECT cluster_id FROM silver_clusters ORDER BY cluster_id"
JOURNAL = "SELECT * FROM nudges ORDER BY nudged_at, seen_at"
# Times after the end of observation count as that end. An attempt that is running then holds its GPUs; one whose end
# was inferred does not. A job of which another attempt is, or may be, using its GPUs is not idle.
HOLDERS = """
WITH seen AS (
    SELECT cluster_id, time_zone, least(observed_until, to_timestamp(getvariable('at'))) AS seen_at
    FROM silver_clusters
    WHERE getvariable('cluster') IS NULL OR cluster_id = getvariable('cluster')
),
prices AS (
    SELECT unnest(
        from_json(getvariable('prices')::JSON, '[{"gpu_type": "VARCHAR", "price": "DOUBLE"}]'), recursive := true
    )
),
held AS (
    SELECT
        holdings.cluster_id, holdings.job_key, seen.time_zone, seen.seen_at, holdings.held_from, holdings.gpus,
        coalesce(capacity.gpu_type, holdings.gpu_type, 'unknown') AS gpu_type, holdings.bucket,
        epoch(seen.seen_at) - epoch(holdings.held_from) AS seconds
    FROM silver_holdings AS holdings
    INNER JOIN seen ON holdings.cluster_id = seen.cluster_id
    LEFT JOIN silver_capacity AS capacity ON holdings.machine_key = capacity.machine_key
    WHERE
        holdings.held_from <= seen.seen_at
        AND (seen.seen_at < holdings.held_until OR (holdings.end_basis = 'censored' AND seen.seen_at = held_until))
),
empty AS (
    SELECT
        held.cluster_id, held.job_key, held.time_zone, held.seen_at, min(held.held_from) AS since,
        sum(held.gpus) AS gpus, list(DISTINCT held.gpu_type ORDER BY held.gpu_type) AS gpu_types,
        sum(held.gpus * held.seconds) / 3600 AS gpu_hours,
        CASE WHEN count(*) = count(prices.price) THEN sum(held.gpus * held.seconds * prices.price) / 3600 END AS cost
    FROM held
    LEFT JOIN prices ON held.gpu_type = prices.gpu_type
    WHERE held.bucket = 'idle' AND held.seconds >= 60 * getvariable('minutes')
    GROUP BY held.cluster_id, held.job_key, held.time_zone, held.seen_at
)
SELECT
    empty.cluster_id, jobs.job_id, jobs.user_id, jobs.account_id, jobs.workload, jobs.group_id, empty.gpu_types,
    empty.gpus, empty.since, empty.seen_at, empty.gpu_hours, empty.cost, empty.time_zone,
    empty.job_key IN (SELECT job_key FROM held WHERE bucket != 'idle') AS is_at_work
FROM empty
INNER JOIN silver_jobs AS jobs ON empty.job_key = jobs.job_key
ORDER BY empty.gpu_hours DESC, empty.cluster_id, jobs.job_id
"""


@dataclass(frozen=True)
class Holder:
    """A job that holds GPUs without using them."""

    cluster_id: str
    job_id: str
    user_id: str | None
    account_id: str | None
    workload: str | None
    group_id: str | None
    gpu_types: tuple[str, ...]
    gpus: float
    since: datetime
    seen_at: datetime
    gpu_hours: float
    cost: float | None  # None: a price is not known
    time_zone: str
    is_at_work: bool  # another attempt of it uses its GPUs, or may

    @property
    def minutes(self) -> float:
        return (self.seen_at - self.since).total_seconds() / 60


def read_holders(reader: LakeReader, config: Config, cluster: str | None, at: datetime | None) -> list[Holder]:
    """Jobs that have held idle GPUs long enough for a warning, most GPU-hours first."""
    reader.need(NEEDED)
    clusters = [row["cluster_id"] for row in reader.query(CLUSTERS).to_pylist()]
    if cluster is not None and cluster not in clusters:
        raise UsageError(f"no cluster named {cluster!r}", choice_hint(cluster, clusters))
    kinds = config.gpu_types.items()
    rows = reader.query(
        HOLDERS,
        cluster=cluster,
        at=at.timestamp() if at else None,
        minutes=config.nudges.warn_after_minutes,
        prices=json.dumps(
            [{"gpu_type": n, "price": kind.price_per_hour} for n, kind in kinds if kind.price_per_hour >= 0]
        ),
    ).to_pylist()
    return [Holder(**{**row, "gpu_types": tuple(row["gpu_types"])}) for row in rows]


def read_journal(reader: LakeReader) -> list[NudgeRecord]:
    return [NudgeRecord(**row) for row in reader.query(JOURNAL).to_pylist()]
