"""Score the days of the cluster as the reference does, and say which days cannot be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpulake.detect.forest import Forest, fit, load
from gpulake.detect.grow import Floats
from gpulake.lake import Staging, replace_text

TABLE = "gold_cluster_util_daily_scored"
FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]
FEWEST_DAYS = 3
MODEL_NAME = "cluster_anomaly_iforest.json"
QUERY = """
SELECT reference.*, daily.coverage_ratio, coalesce(daily.is_poorly_covered, true) AS is_poorly_covered
FROM gold_cluster_util_daily_reference AS reference
LEFT JOIN gold_cluster_coverage_daily AS daily USING (dt)
ORDER BY dt
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
    scored = [_scored(day, scores.get(day["dt"])) for day in days]
    staging.write(TABLE, scored)
    return sum(day["anomaly_flag"] for day in scored)


def _fit_and_keep(rows: Floats, path: Path) -> Forest:
    replace_text(path, fit(rows, FEATURES).to_json())
    # The file is what scores, so that it is always true to the table.
    return load(path)


def _scored(day: dict[str, Any], score: float | None) -> dict[str, Any]:
    return {**day, "anomaly_flag": int(score is not None and score < 0), "anomaly_score": score}
