"""The reference's fit: a scaler and an isolation forest on the days, as joblib files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import duckdb
import joblib  # type: ignore[import-untyped]
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import StandardScaler

FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]

if __name__ == "__main__":
    models = Path(sys.argv[1]) / "ml"
    with duckdb.connect(os.environ["DUCKDB_PATH"]) as connection:
        days = connection.execute("select * from gold_cluster_util_daily order by dt").df()
    scaler = StandardScaler()
    scaled = scaler.fit_transform(days[FEATURES].values)
    forest = IsolationForest(n_estimators=100, contamination=0.05, random_state=42)
    forest.fit(scaled)
    joblib.dump(forest, models / "cluster_anomaly_iforest.joblib")
    joblib.dump(scaler, models / "cluster_anomaly_scaler.joblib")
