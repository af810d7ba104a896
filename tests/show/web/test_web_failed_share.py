"""The failed share is one number, on every page and in the tables: of the jobs that ended, those that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import built_from, rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.lake import Lake
from show.web.asking import ask, client_of

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,96000,524288,8,V100M16\n"
SACCT = "JobID|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList\n"
STATES = ("COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "PREEMPTED", "CANCELLED")


def shares(lake: Lake, cluster: str) -> dict[str, object]:
    """By place: jobs that ended, and the share of them that failed."""
    client = client_of(lake.config)
    overview = {row["label"]: row["value"] for row in ask(client, "key_numbers", cluster=cluster)}
    jobs = {row["label"]: row for row in ask(client, "jobs_summary", cluster=cluster)}
    listed = [row["status"] for row in ask(client, "ended_jobs", cluster=cluster)]
    failed = ask(client, "ended_jobs", cluster=cluster, status="failed")
    (mart,) = rows_of(
        lake,
        "SELECT sum(ended_jobs) AS ended, sum(failed_ratio * ended_jobs) / sum(ended_jobs) AS share"
        f" FROM gold_jobs_daily WHERE cluster_id = '{cluster}'",
    )
    return {
        "overview": (overview["jobs ended"], overview["failed"]),
        "jobs": (float(jobs["jobs"]["note"].split()[0].replace(",", "")), jobs["failed"]["value"]),
        "list": (len(listed), len(failed) / len(listed)),
        "mart": (float(str(mart["ended"])), float(str(mart["share"]))),
    }


@pytest.mark.slow
def test_pods_that_run_or_wait_have_not_ended_on_any_page(tmp_path: Path) -> None:
    phases = ("Running",) * 5 + ("Pending",) * 2 + ("Failed",) * 2 + ("Succeeded",)
    pods = "".join(
        f"p{number},1000,1024,1,1000,,LS,{phase},{100 * number},{100 * number + 5000},"
        f"{'' if phase == 'Pending' else 100 * number}\n"
        for number, phase in enumerate(phases)
    )
    files = {"openb_pod_list_default.csv": PODS + pods, "openb_node_list_all_node.csv": NODES}
    lake = built_from(tmp_path, files)
    result = shares(lake, "openb")
    assert result == dict.fromkeys(result, (3.0, pytest.approx(2 / 3)))
    # A pod held its GPU until it was deleted, whatever its phase was then.
    (held,) = rows_of(lake, "SELECT sum(gpus * held_seconds) AS held FROM silver_holdings WHERE status = 'running'")
    assert held == {"held": 5 * 5000.0}


@pytest.mark.slow
def test_jobs_that_ran_out_of_time_or_were_interrupted_have_not_failed_on_any_page(tmp_path: Path) -> None:
    times = "2026-03-01T01:00:00|2026-03-01T01:00:00|2026-03-01T0{}:00:00|1|gres/gpu=1|n1"
    rows = "".join(f"{number}|ann|c|{state}|{times.format(2 + number)}\n" for number, state in enumerate(STATES))
    waits = "20|ann|c|PENDING|2026-03-01T01:00:00|Unknown|Unknown|1||None assigned\n"
    result = shares(built_from(tmp_path, {"sacct.txt": SACCT + rows + waits}), "c")
    assert result == dict.fromkeys(result, (7.0, pytest.approx(2 / 7)))


@pytest.mark.slow
@pytest.mark.real
def test_overview_and_jobs_page_agree_on_a_real_trace(tmp_path: Path, real_data: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([real_data / "alibaba_openb_v2023"])
    flow.build()
    result = shares(flow.lake, "openb")
    # 1,870 failed and 192 succeeded of 8,152 pods; the others run or wait.
    assert result == dict.fromkeys(result, (2062.0, pytest.approx(1870 / 2062)))
