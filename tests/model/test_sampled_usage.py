"""GPU samples say what jobs of a scheduler used, by the names on them or by who held the machine alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import built_from, rows_of
from gpulake.core.config import Cluster
from gpulake.formats.scontrol import Note
from gpulake.lake import Lake
from model.sacct import dump, gpus, times

pytestmark = pytest.mark.slow

CLUSTERS = {"tiger": Cluster(time_zone="UTC")}
BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)
HOUR = ("2026-03-01T09:00:00", "2026-03-01T10:00:00", "2026-03-01T11:00:00")


def job(number: int, count: int, node: str = "gpu-1", state: str = "COMPLETED") -> dict[str, str]:
    return {
        "JobID": str(number),
        "JobIDRaw": str(number),
        "State": state,
        "ElapsedRaw": "3600",
        "NNodes": "1",
        "AllocTRES": gpus(count),
        "NodeList": node,
        **times(*HOUR[:2], HOUR[2] if state == "COMPLETED" else "Unknown"),
    }


def page(busy: Mapping[int, tuple[float, str]], node: str = "gpu-1") -> str:
    """A scrape a minute for an hour: the percentage and further labels of each GPU."""
    begin = int(BEGIN.timestamp() * 1000)
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="{node}-{gpu}",Hostname="{node}"{labels}}} {percent} {at}\n'
        f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}",UUID="{node}-{gpu}",Hostname="{node}"{labels}}} {gpu + 1} {at}\n'
        for at in range(begin, begin + 3_600_001, 60_000)
        for gpu, (percent, labels) in busy.items()
    )


def of(number: int) -> str:
    return f',hpc_job="{number}"'


Gpus = dict[int, tuple[float, str]]

# By node: its jobs, its GPUs, and what each job used.
NODES: dict[str, tuple[list[dict[str, str]], Gpus, dict[str, float | None]]] = {
    "labelled": (
        [job(11, 2), job(12, 1)],
        {0: (100, of(11)), 1: (0, of(11)), 2: (60, of(12)), 3: (0, "")},
        {"11": 1, "12": 0.6},
    ),
    # Nothing names the job, but it is the only one: what is busy is its own.
    "alone": ([job(21, 2)], {0: (0, ""), 1: (90, ""), 2: (50, ""), 3: (0, "")}, {"21": 1.4}),
    "whole": ([job(31, 4)], {0: (0, ""), 1: (80, ""), 2: (0, ""), 3: (0, "")}, {"31": 0.8}),
    "running": ([job(41, 1, state="RUNNING")], {0: (30, of(41))}, {"41": 0.3}),
    # Two that nothing tells apart stay unobserved.
    "unnamed": ([job(51, 1), job(52, 1)], {0: (100, ""), 1: (0, "")}, {"51": None, "52": None}),
    # The second GPU has no process, and belongs to nobody else.
    "half": ([job(61, 2), job(62, 1)], {0: (100, of(61)), 1: (0, ""), 2: (40, of(62))}, {"61": 1, "62": 0.4}),
}
# What scontrol --detail says of jobs 91 and 92, as Slurm 22.05 prints it.
HELD = """\
JobId=91 JobName=train UserId=ann(1000) JobState=RUNNING Reason=None Dependency=(null)
   SubmitTime=2026-03-01T09:00:00 StartTime=2026-03-01T10:00:00 EndTime=Unknown
   NodeList=indexed NumNodes=1 TRES=cpu=8,gres/gpu=2 JOB_GRES=gpu:2
     Nodes=indexed CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0,3)
JobId=92 JobName=train UserId=ann(1000) JobState=RUNNING Reason=None Dependency=(null)
   SubmitTime=2026-03-01T09:00:00 StartTime=2026-03-01T10:00:00 EndTime=Unknown
   NodeList=indexed,other NumNodes=2 TRES=cpu=8,gres/gpu=5 JOB_GRES=gpu:5
     Nodes=indexed CPU_IDs=1 Mem=0 GRES=gpu:2(IDX:1-2)
     Nodes=other CPU_IDs=0 Mem=0 GRES=gpu:3(IDX:0-2)
"""
IDLE: tuple[list[dict[str, str]], Gpus, dict[str, float | None]] = (
    [job(71, 2)],
    {0: (0, of(71)), 1: (0, of(71))},
    {"71": 0},
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    nodes = {**NODES, "idle": IDLE}
    jobs = [{**row, "NodeList": node} for node, (rows, _, _) in nodes.items() for row in rows]
    jobs.append(job(81, 1, node="unseen"))
    pages = {f"{node}.prom": page(busy, node) for node, (_, busy, _) in nodes.items()}
    return built_from(tmp_path_factory.mktemp("site"), {"jobs.txt": dump(*jobs), **pages}, clusters=CLUSTERS)


def test_a_job_used_what_the_samples_of_its_gpus_say(site: Lake) -> None:
    rows = rows_of(
        site,
        "SELECT job_id, round(used_gpus, 6) AS used_gpus"
        " FROM silver_instances JOIN silver_jobs USING (job_key) LEFT JOIN silver_instance_usage USING (worker_key)",
    )
    expected = {number: used for _, _, jobs in [*NODES.values(), IDLE] for number, used in jobs.items()}
    assert {row["job_id"]: row["used_gpus"] for row in rows} == {**expected, "81": None}


def test_jobs_that_share_a_node_use_the_gpus_that_slurm_says_they_hold(tmp_path: Path) -> None:
    node = page({0: (10, ""), 1: (50, ""), 2: (90, ""), 3: (40, ""), 4: (100, "")}, "indexed")
    jobs = dump(job(91, 2, "indexed"), {**job(92, 5, "indexed,other"), "NNodes": "2"}, job(93, 1, "indexed"))
    note = Note("Tiger", "2026-03-01T10:30:00+00:00", "UTC", "").line()
    files = {"jobs.txt": jobs, "queue.txt": note + HELD, "indexed.prom": node}
    rows = rows_of(
        built_from(tmp_path, files, clusters=CLUSTERS),
        "SELECT job_id, gpus, round(used_gpus, 6) AS used_gpus"
        " FROM silver_instances JOIN silver_jobs USING (job_key)"
        " LEFT JOIN silver_instance_usage USING (worker_key) ORDER BY ALL",
    )
    assert [tuple(row.values()) for row in rows] == [
        ("91", 2, 0.5),
        ("92", 2, 1.4),
        ("92", 3, None),
        # Nothing says which of the GPUs it holds: that one is left over is no proof.
        ("93", 1, None),
    ]


def test_the_ledger_counts_the_hours_that_samples_show(site: Lake) -> None:
    (row,) = rows_of(
        site,
        "SELECT sum(idle_gpu_hours) AS idle, sum(unobserved_gpu_hours) AS unobserved, sum(held_gpu_hours) AS held"
        " FROM gold_user_gpu_usage_daily",
    )
    assert row == pytest.approx({"idle": 2, "unobserved": 3, "held": 18})


def test_the_pod_of_an_exporter_holds_no_gpu(tmp_path: Path) -> None:
    scraped = ',pod="dcgm-exporter-x2x",namespace="monitoring",container="exporter"'
    trained = scraped + ',exported_pod="train-0",exported_namespace="ml"'
    lake = built_from(tmp_path, {"gpu-1.prom": page({0: (90, trained), 1: (0, scraped), 2: (90, scraped)})})
    rows = rows_of(lake, "SELECT DISTINCT gpu_index, owner_kind, owner_id FROM silver_gpu_samples ORDER BY gpu_index")
    assert [tuple(row.values()) for row in rows] == [
        (0, "pod", "ml/train-0"),
        (1, "nobody", None),
        (2, "unattributed", None),
    ]
