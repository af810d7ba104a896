"""The reference's bronze: each CSV whole in memory, then Parquet as pandas writes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

SOURCES = {
    "pai_job_table.csv": "bronze_job_events.parquet",
    "pai_instance_table.csv": "bronze_instance_table.parquet",
    "pai_machine_metric.csv": "bronze_machine_metrics.parquet",
    "pai_machine_spec.csv": "bronze_machine_spec.parquet",
    "tpu_gpus.csv": "bronze_gpu_specs.parquet",
}


def ingest(source: Path, target: Path) -> None:
    print(f"Reading {source}")
    frame = pd.read_csv(source)
    frame.to_parquet(target, index=False)
    print(f"Wrote {len(frame):,} rows to {target}")


if __name__ == "__main__":
    place, raw = Path(sys.argv[1]), Path(sys.argv[2])
    for source, target in SOURCES.items():
        ingest(raw / source, place / "data_lake" / "bronze" / target)
