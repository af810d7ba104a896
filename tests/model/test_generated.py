"""Rows that gpulake synth wrote say so wherever they land: they are of the cluster synth, never of pai."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.land.readers.pai import TABLES
from gpulake.synth import TraceSummary
from hand_made import Attempt, write_trace

CLUSTERS = """
SELECT table_name FROM information_schema.columns WHERE column_name = 'cluster_id' AND table_name NOT LIKE 'bronze_%'
"""


def test_every_row_of_a_generated_trace_is_of_the_cluster_synth(shared_lake: Config) -> None:
    with Lake(shared_lake).reading() as reader:
        tables = [row["table_name"] for row in reader.query(CLUSTERS).to_pylist()]
        found = {
            row["cluster_id"]
            for table in tables
            for row in reader.query(f"SELECT DISTINCT cluster_id FROM {table}").to_pylist()
        }
        (cluster,) = reader.query("SELECT time_zone, is_generated FROM silver_clusters").to_pylist()
    assert {"silver_jobs", "silver_machines", "gold_ledger_daily", "silver_gpu_timeseries"} <= set(tables)
    assert found - {None} == {"synth"}
    assert cluster == {"time_zone": "Asia/Shanghai", "is_generated": True}


def test_a_generated_file_that_was_renamed_is_recognised_by_its_rows(
    trace: tuple[Path, TraceSummary], tmp_path: Path, config: Config
) -> None:
    files = sorted(trace[0].glob("pai_*.csv"))
    for number, file in enumerate(files):
        (tmp_path / f"part-{number}.csv").write_bytes(file.read_bytes())
    landings = Flow(config).land([tmp_path / f"part-{number}.csv" for number in range(len(files))]).landings
    assert {landing.table: landing.rows_landed for landing in landings} == {
        TABLES[name]: rows for name, rows in trace[1].rows.items()
    }


@pytest.mark.slow
def test_generated_rows_stay_apart_from_real_ones_in_the_same_files(tmp_path: Path) -> None:
    attempts = [Attempt("j", "ann", 1, 2.5, used=0.5), Attempt("synth-j", "ann", 1, 2.5, used=0.5, machine="t")]
    folder = write_trace(tmp_path / "raw", attempts)
    for file in folder.glob("pai_*.csv"):
        file.write_text(re.sub(r"(^|,)t(,|$)", r"\1synth-t\2", file.read_text(), flags=re.MULTILINE))
    config = Config(lake=tmp_path / "lake", threads=1)
    Flow(config).refresh([folder], None)
    with Lake(config).reading() as reader:
        jobs = reader.query("SELECT cluster_id, job_id FROM silver_jobs ORDER BY 1").to_pylist()
        machines = reader.query("SELECT cluster_id, machine_id FROM silver_machines ORDER BY 1").to_pylist()
        clusters = reader.query("SELECT cluster_id, is_generated FROM silver_clusters ORDER BY 1").to_pylist()
    assert jobs == [{"cluster_id": "pai", "job_id": "j"}, {"cluster_id": "synth", "job_id": "synth-j"}]
    assert machines == [{"cluster_id": "pai", "machine_id": "v"}, {"cluster_id": "synth", "machine_id": "synth-t"}]
    assert clusters == [
        {"cluster_id": "pai", "is_generated": False},
        {"cluster_id": "synth", "is_generated": True},
    ]
