"""Scores the days of the cluster by the reference's forest and by our watches, and says why the two differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from gpulake.core.packaged import queries
from gpulake.core.types import Finding
from gpulake.detect.expected_days import ScoredDay, explain_difference, score_cluster_days
from gpulake.detect.forest import Forest, fit, load
from gpulake.detect.grow import Floats
from gpulake.lake import Staging, replace_text

TABLE = "gold_cluster_util_daily_scored"
FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]
FEWEST_DAYS = 3
MODEL_NAME = "cluster_anomaly_iforest.json"
SQL = queries("gpulake.detect", "queries.sql")


def score_days(staging: Staging, watched: Sequence[Finding] | None, given_model: Path | None = None) -> int:
    """Writes the scored days: by the findings of the watches, where these ran, and by a forest, which is fitted unless
    a model is given. Returns the number of days that the forest flags."""
    days: list[dict[str, Any]] = staging.read(SQL["scored_days"]).to_pylist()
    complete = [day for day in days if all(day[feature] is not None for feature in FEATURES)]
    values = [[day[feature] for feature in FEATURES] for day in complete]
    rows = np.array(values, dtype=np.float64).reshape(-1, len(FEATURES))
    scores: dict[Any, float] = {}
    if given_model or len(complete) >= FEWEST_DAYS:
        forest = load(given_model) if given_model else _fit_and_keep(rows, staging.lake.models / MODEL_NAME)
        scores = dict(zip((day["dt"] for day in complete), forest.decide(rows).tolist(), strict=True))
    ours: Mapping[date, ScoredDay] = {}
    if watched is not None:
        ours = score_cluster_days(staging.read, staging.read(SQL["daily_utilisation"]).to_pylist(), watched)
    scored = [_scored(day, scores.get(day["dt"]), ours.get(day["dt"])) for day in days]
    staging.write(TABLE, scored)
    return sum(day["anomaly_flag"] for day in scored)


def _fit_and_keep(rows: Floats, path: Path) -> Forest:
    replace_text(path, fit(rows, FEATURES).to_json())
    # Scores come from the file, so that it always agrees with the table.
    return load(path)


def _scored(day: dict[str, Any], score: float | None, ours: ScoredDay | None) -> dict[str, Any]:
    flag = int(score is not None and score < 0)
    return {
        **day,
        "anomaly_flag": flag,
        "anomaly_score": score,
        "own_score": ours.score if ours else None,
        "own_flag": ours is not None and ours.is_flagged,
        "own_expected_ratio": ours.expected_ratio if ours else None,
        "own_low_ratio": ours.low_ratio if ours else None,
        "own_high_ratio": ours.high_ratio if ours else None,
        "why_they_differ": explain_difference(ours, bool(flag), score),
    }
