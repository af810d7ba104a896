"""Metrics of the lake: each is a query whose columns are its labels and, last, its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gpulake.core.ledger import BUCKETS, HELD
from gpulake.show.web.questions import Question

# The first and the newest day count only once they have all of their hours.
_DAYS = """
WITH hours AS (
    SELECT cluster_id, dt, count(DISTINCT started_at) AS hours, min(started_at) AS began_at
    FROM gold_ledger_hourly GROUP BY ALL
), whole AS (
    SELECT *, dt > min(dt) OVER (PARTITION BY cluster_id) AND dt < max(dt) OVER (PARTITION BY cluster_id) AS is_inner
    FROM hours
), last_day AS (
    SELECT cluster_id, max(dt) AS dt, max(began_at) AS began_at
    FROM whole WHERE is_inner OR hours >= 24 GROUP BY cluster_id
), last_hour AS (
    SELECT cluster_id, max(started_at) AS started_at FROM gold_ledger_hourly GROUP BY cluster_id
)
"""
_LABELS = "l.cluster_id AS cluster, coalesce(l.gpu_type, '') AS gpu_type"
_OF_DAY = "FROM gold_ledger_hourly AS l JOIN last_day USING (cluster_id, dt)"
_OF_HOUR = "FROM gold_ledger_hourly AS l JOIN last_hour USING (cluster_id, started_at)"


def _buckets(of: str) -> str:
    """GPU-seconds by bucket, from the sums of hours."""
    sums = ", ".join(f"{_seconds(f'{bucket}_gpu_hours')} AS {bucket}" for bucket in BUCKETS)
    return f"""{_DAYS}
SELECT cluster, gpu_type, bucket, value FROM (
    UNPIVOT (SELECT {_LABELS}, {sums} {of} GROUP BY ALL) ON {", ".join(BUCKETS)} INTO NAME bucket VALUE value
)"""


def _held(of: str) -> str:
    held = " + ".join(f"{bucket}_gpu_hours" for bucket in HELD)
    return f"{_DAYS} SELECT {_LABELS}, {_seconds(held)} AS value {of} GROUP BY ALL"


def _capacity(of: str) -> str:
    return f"{_DAYS} SELECT {_LABELS}, {_seconds('capacity_gpu_hours')} AS value {of} GROUP BY ALL"


def _seconds(hours: str) -> str:
    """Rounded: sums of fractions are a little off."""
    return f"round(3600 * sum({hours}), 6)"


def _daily(table: str, column: str, at: str = "=") -> str:
    return f"""{_DAYS}
SELECT t.cluster_id AS cluster, arg_max(t.{column}, t.dt) AS value
FROM {table} AS t JOIN last_day AS d ON t.cluster_id = d.cluster_id AND t.dt {at} d.dt GROUP BY ALL"""


@dataclass(frozen=True)
class Gauge:
    name: str
    help: str
    sql: str
    kind: Literal["gauge", "summary"] = "gauge"

    @cached_property
    def question(self) -> Question:
        return Question(self.name, self.help, self.sql, "ALL")

    def samples(self, row: dict[str, Any]) -> Sequence[tuple[str, dict[str, str], float | None]]:
        """The name, labels and value of each sample of a row."""
        labels = {name: str(label) for name, label in row.items() if name not in ("value", "quantiles", "count", "sum")}
        if self.kind == "gauge":
            return [(self.name, labels, row["value"])]
        quantiles = [
            (self.name, {**labels, "quantile": one["quantile"]}, one["value"])
            for one in row["quantiles"]
            if one["value"] is not None
        ]
        return [*quantiles, (f"{self.name}_sum", labels, row["sum"]), (f"{self.name}_count", labels, row["count"])]


def _waits(wait: str) -> str:
    quantiles = ", ".join(
        f"{{'quantile': '{level / 100:g}', 'value': p{level}_{wait}_wait_seconds}}" for level in (50, 75, 90, 95, 99)
    )
    return f"""
SELECT cluster_id AS cluster, coalesce(gpu_type, '') AS gpu_type, request_size, [{quantiles}] AS quantiles,
    {wait}_wait_tasks AS count, coalesce(mean_{wait}_wait_seconds, 0) * {wait}_wait_tasks AS sum
FROM gold_queue_waits
"""


GAUGES = (
    Gauge(
        "gpulake_lake_build_timestamp_seconds",
        "When the build in use was made, seconds of the epoch.",
        "SELECT epoch(built_at) AS value FROM build_info",
    ),
    Gauge(
        "gpulake_lake_newest_data_timestamp_seconds",
        "End of the newest hour of which the lake knows, seconds of the epoch.",
        f"{_DAYS} SELECT cluster_id AS cluster, epoch(started_at) + 3600 AS value FROM last_hour",
    ),
    Gauge(
        "gpulake_lake_day_timestamp_seconds",
        "Begin of the last complete day, which the metrics named day are of, seconds of the epoch.",
        f"{_DAYS} SELECT cluster_id AS cluster, epoch(began_at) AS value FROM last_day",
    ),
    Gauge(
        "gpulake_lake_day_capacity_gpu_seconds",
        "What all GPUs could have given on the last complete day.",
        _capacity(_OF_DAY),
    ),
    Gauge(
        "gpulake_lake_day_gpu_seconds",
        "Where the GPU time of the last complete day went; the buckets sum to its capacity. Lost ones are at most.",
        _buckets(_OF_DAY),
    ),
    Gauge("gpulake_lake_day_held_gpu_seconds", "GPU time that jobs held on the last complete day.", _held(_OF_DAY)),
    Gauge(
        "gpulake_lake_hour_capacity_gpu_seconds",
        "What all GPUs could have given in the newest hour.",
        _capacity(_OF_HOUR),
    ),
    Gauge(
        "gpulake_lake_hour_gpu_seconds",
        "Where the GPU time of the newest hour went; the buckets sum to its capacity. Lost ones are at most.",
        _buckets(_OF_HOUR),
    ),
    Gauge(
        "gpulake_lake_day_gpu_utilisation_ratio",
        "Busy of observed GPU time, 0 to 1, on the newest complete day that was observed.",
        _daily("gold_cluster_util_daily", "gpu_util_ratio", "<="),
    ),
    Gauge(
        "gpulake_lake_day_coverage_ratio",
        "Observed GPU time of capacity, 0 to 1, on the newest complete day that was observed.",
        _daily("gold_cluster_util_daily", "coverage_ratio", "<="),
    ),
    Gauge(
        "gpulake_lake_day_ended_jobs",
        "Jobs that ended on the last complete day.",
        _daily("gold_jobs_daily", "ended_jobs"),
    ),
    Gauge(
        "gpulake_lake_day_failed_jobs",
        "Jobs that failed on the last complete day.",
        _daily("gold_jobs_daily", "failed_jobs"),
    ),
    Gauge(
        "gpulake_lake_queue_wait_seconds",
        "From submission to start, of all tasks that started.",
        _waits("start"),
        "summary",
    ),
    Gauge(
        "gpulake_lake_open_incidents",
        "Incidents that are not resolved.",
        "SELECT coalesce(cluster_id, '') AS cluster, kind, severity, state, count(*) AS value "
        "FROM incidents WHERE state <> 'resolved' GROUP BY ALL",
    ),
    Gauge(
        "gpulake_lake_findings",
        "What detectors found abnormal in the build in use.",
        "SELECT coalesce(cluster_id, '') AS cluster, kind, coalesce(severity, '') AS severity, count(*) AS value "
        "FROM findings GROUP BY ALL",
    ),
    Gauge(
        "gpulake_lake_quarantined_rows",
        "Rows that did not parse and were set aside.",
        'SELECT table_name AS "table", count(*) AS value FROM quarantine GROUP BY ALL',
    ),
    Gauge(
        "gpulake_lake_tests",
        "Data tests of the last build by what came of them.",
        "SELECT severity, status, count(*) AS value FROM test_results GROUP BY ALL",
    ),
    Gauge(
        "gpulake_lake_last_step_timestamp_seconds",
        "When a step of the flow last began, by what came of it, seconds of the epoch.",
        "SELECT step, status, max(epoch(started_at)) AS value FROM runs GROUP BY ALL",
    ),
)
