"""Score the days of the cluster as the reference does, and beside it by our own score, which says why they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpulake.detect.forest import Forest, fit, load
from gpulake.detect.grow import Floats
from gpulake.detect.own_days import OwnDay, judge_days, why
from gpulake.lake import Staging, replace_text

TABLE = "gold_cluster_util_daily_scored"
FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]
FEWEST_DAYS = 3
MODEL_NAME = "cluster_anomaly_iforest.json"
QUERY = """
WITH covered AS (
    SELECT
        dt, sum(observed_gpu_hours) / nullif(sum(capacity_gpu_hours), 0) AS coverage_ratio,
        bool_and(is_poorly_covered) AS is_poorly_covered
    FROM gold_cluster_coverage_daily
    GROUP BY dt
)
SELECT reference.*, covered.coverage_ratio, coalesce(covered.is_poorly_covered, true) AS is_poorly_covered
FROM gold_cluster_util_daily_reference AS reference
LEFT JOIN covered USING (dt)
ORDER BY dt
"""
UTILISATION = """
SELECT cluster_id, dt, gpu_util_ratio, coverage_ratio, is_poorly_covered FROM gold_cluster_util_daily
ORDER BY cluster_id, dt
"""


def score_days(staging: Staging, given_model: Path | None = None) -> int:
    """Writes the scored days; fits a forest unless a model is given. Returns the number of flagged days."""
    days: list[dict[str, Any]] = staging.read(QUERY).to_pylist()
    complete = [day for day in days if all(day[feature] is not None for feature in FEATURES)]
    values = [[day[feature] for feature in FEATURES] for day in complete]
    rows = np.array(values, dtype=np.float64).reshape(-1, len(FEATURES))
    scores: dict[Any, float] = {}
    if given_model or len(complete) >= FEWEST_DAYS:
        forest = load(given_model) if given_model else _fit_and_keep(rows, staging.lake.models / MODEL_NAME)
        scores = dict(zip((day["dt"] for day in complete), forest.decide(rows).tolist(), strict=True))
    own = judge_days(staging.read(UTILISATION).to_pylist())
    scored = [_scored(day, scores.get(day["dt"]), own.get(day["dt"])) for day in days]
    staging.write(TABLE, scored)
    return sum(day["anomaly_flag"] for day in scored)


def _fit_and_keep(rows: Floats, path: Path) -> Forest:
    replace_text(path, fit(rows, FEATURES).to_json())
    # The file is what scores, so that it is always true to the table.
    return load(path)


def _scored(day: dict[str, Any], score: float | None, own: OwnDay | None) -> dict[str, Any]:
    flag = int(score is not None and score < 0)
    return {
        **day,
        "anomaly_flag": flag,
        "anomaly_score": score,
        "own_score": own.score if own else None,
        "own_flag": own is not None and own.is_flagged,
        "own_expected_ratio": own.expected_ratio if own else None,
        "own_low_ratio": own.low_ratio if own else None,
        "own_high_ratio": own.high_ratio if own else None,
        "why_they_differ": why(own, bool(flag), score),
    }
