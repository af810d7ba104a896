"""The reference's scores: the models from their files, the days from the database, the answer back into it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import duckdb
import joblib  # type: ignore[import-untyped]

FEATURES = ["avg_gpu_util", "p95_gpu_util", "avg_cpu_util"]

if __name__ == "__main__":
    models = Path(sys.argv[1]) / "ml"
    forest = joblib.load(models / "cluster_anomaly_iforest.joblib")
    scaler = joblib.load(models / "cluster_anomaly_scaler.joblib")
    with duckdb.connect(os.environ["DUCKDB_PATH"]) as connection:
        days = connection.execute("select * from gold_cluster_util_daily order by dt").df()
        scaled = scaler.transform(days[FEATURES].values)
        days["anomaly_flag"] = (forest.predict(scaled) == -1).astype(int)
        days["anomaly_score"] = forest.decision_function(scaled)
        connection.execute("drop table if exists gold_cluster_util_daily_scored")
        connection.register("days", days)
        connection.execute("create table gold_cluster_util_daily_scored as select * from days")
