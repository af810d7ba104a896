"""A table to which a later version gave a column: files that lack it are read beside those that have it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow

HEAD = "JobID|JobIDRaw|User|Cluster|State|Submit|Start|End|AllocTRES|NodeList"
JOB = "{0}|{0}|ann|tiger|COMPLETED|2026-05-04T10:00:00|2026-05-04T10:00:00|2026-05-04T11:00:00|gres/gpu=1|g1"


def as_an_older_version_left_it(folder: Path, column: str) -> None:
    """Its files and its first commit do not know the column."""
    for path in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns([column]), path)
    commit = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"] = [field for field in schema["fields"] if field["name"] != column]
            action["metaData"]["schemaString"] = json.dumps(schema)
    commit.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.slow
def test_a_lake_of_an_older_version_is_read_extended_and_built(tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text(f"{HEAD}\n{JOB.format(1)}\n")
    new.write_text(f"{HEAD}\n{JOB.format(2)}\n")
    flow.land([old])
    as_an_older_version_left_it(flow.lake.root / "bronze" / "bronze_slurm_jobs", "gpu_indexes")
    assert rows_of(flow.lake, 'SELECT "JobID", gpu_indexes FROM bronze_slurm_jobs') == [
        {"JobID": "1", "gpu_indexes": None}
    ]
    flow.land([new])
    flow.build()
    assert sorted(str(row["job_id"]) for row in rows_of(flow.lake, "SELECT job_id FROM silver_jobs")) == ["1", "2"]
