"""The reference system's queries run unchanged on schema `reference`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake

# As its models and its scoring script say them.
DAILY = """
SELECT
    date_trunc('day', to_timestamp(ts)) AS dt, avg(gpu_util_pct) AS avg_gpu_util,
    quantile_cont(gpu_util_pct, 0.95) AS p95_gpu_util, avg(cpu_util_pct) AS avg_cpu_util
FROM silver_gpu_timeseries WHERE gpu_util_pct IS NOT NULL GROUP BY dt ORDER BY dt
"""
SCORED = "SELECT dt, avg_gpu_util, anomaly_flag, anomaly_score FROM gold_cluster_util_daily_scored ORDER BY dt"


def _landed(folder: Path, config: Config) -> Config:
    (folder / "pai_job_table.csv").write_text(
        "job_name,inst_id,user,status,start_time,end_time\n"
        "j1,i1,ann,Terminated,100,160\nj2,i2,bob,Failed,200,200\nj3,i3,ann,Running,300,\n"
    )
    (folder / "pai_machine_metric.csv").write_text(
        "worker_name,machine,start_time,end_time,machine_cpu_iowait,machine_cpu_kernel,machine_cpu_usr,machine_gpu,"
        "machine_load_1,machine_net_receive,machine_num_worker,machine_cpu\n"
        "w1,m1,10,20,0.5,1,2,400,3,4,5,50\nw2,m1,20,30,0.5,1,2,0,3,4,5,10\nw3,m2,86410,86420,0.5,1,2,,3,4,5,10\n"
    )
    Flow(config).refresh([folder], None)
    return config


def test_queries_of_the_reference_run_as_they_stand(tmp_path: Path, config: Config) -> None:
    with Lake(_landed(tmp_path, config)).reading(schema="reference") as reader:
        jobs = reader.rows("SELECT * FROM silver_jobs ORDER BY job_id")
        daily = reader.rows(DAILY)
        stored = reader.rows("SELECT * FROM gold_cluster_util_daily ORDER BY dt")
        scored = reader.rows(SCORED)
    names = ("job_id", "instance_id", "user_id", "job_status", "start_time", "end_time", "run_time_sec")
    assert jobs == [
        dict(zip(names, row, strict=True))
        for row in (
            ("j1", "i1", "ann", "Terminated", 100.0, 160.0, 60.0),
            ("j2", "i2", "bob", "Failed", 200.0, 200.0, 0.0),
            ("j3", "i3", "ann", "Running", 300.0, None, None),
        )
    ]
    means = {"avg_gpu_util": 200.0, "p95_gpu_util": 380.0, "avg_cpu_util": 30.0}
    assert daily == [{"dt": datetime(1970, 1, 1, tzinfo=UTC), **means}]
    assert stored == [{"dt": datetime(1970, 1, 1, tzinfo=UTC).date(), **means}]
    assert scored == [
        {"dt": stored[0]["dt"], "avg_gpu_util": 200.0, "anomaly_flag": scored[0]["anomaly_flag"], "anomaly_score": None}
    ]


def test_its_tables_are_named_by_their_schema_or_come_first(tmp_path: Path, config: Config) -> None:
    lake = str(_landed(tmp_path, config).lake)
    query = "SELECT sum(run_time_sec) AS seconds FROM {}silver_jobs"
    for words in (["sql", query.format("reference.")], ["sql", "--schema", "reference", query.format("")]):
        ran = CliRunner().invoke(root, [*words, "--lake", lake, "--format", "csv"])
        assert (ran.exit_code, ran.output) == (0, "seconds\n60.0\n")


def test_a_schema_is_no_table(tmp_path: Path, config: Config) -> None:
    with Lake(_landed(tmp_path, config)).reading() as reader:
        assert "reference" not in reader.tables()
        reader.rows("FROM reference.silver_jobs")
        assert "reference" not in reader.tables()
