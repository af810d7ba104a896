"""`gpulake pull slurm` against a real Slurm with fake GPUs: jobs, a node that is drained, one that never ran a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.pull.slurm import SlurmPull
from slurm_site import SlurmSite, reason_to_skip, slurm_site

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())]


def pull(site: SlurmSite, flow: Flow, since: datetime) -> None:
    flow.clock = FrozenClock(datetime.now(UTC))
    flow.pull(SlurmPull(environment=site.environment), since)
    flow.build()


def test_real_jobs_nodes_and_outages_reach_the_ledger(tmp_path: Path) -> None:
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    with slurm_site(tmp_path / "slurm") as site:
        long = site.submit("sleep 300", "--account=physics", "--gres=gpu:a100:4", "--nodelist=g1")
        array = site.submit("exit $((SLURM_ARRAY_TASK_ID - 1))", "--array=1-2", "--gres=gpu:1", "--nodelist=g2")
        stuck = site.submit("true", "--account=bio", "--gres=gpu:a100:4", "--nodelist=g1")
        site.wait_until(("squeue", "-h", "-j", long, "-o", "%T"), "RUNNING")
        # The database lags behind by seconds.
        site.wait_until(("sacct", "-n", "-a", "-X", "-P", "-o", "JobID,State"), f"{array}_1|COMPLETED")
        site.wait_until(("sacct", "-n", "-a", "-X", "-P", "-o", "JobID,State"), f"{array}_2|FAILED")
        site.wait_until(("sacct", "-n", "-a", "-X", "-P", "-o", "JobID,State"), f"{long}|RUNNING")
        site.run("scontrol", "update", "node=g2", "state=drain", "reason=fan = bad")
        site.wait_until(("sinfo", "-h", "-n", "g2", "-o", "%T"), "drained")
        reserve = ("scontrol", "create", "reservation", "Nodes=g3", "Duration=60")
        site.run(*reserve, "ReservationName=class", "StartTime=now", "Accounts=bio")
        site.run(*reserve, "ReservationName=fix", "StartTime=now+2hours", "Users=root", "Flags=MAINT")
        pull(site, flow, since)
        first = rows_of(flow.lake, "SELECT job_id, status, account_id, wait_reason FROM silver_jobs ORDER BY job_id")
        assert first == [
            {"job_id": long, "status": "running", "account_id": "physics", "wait_reason": None},
            {"job_id": f"{array}_1", "status": "succeeded", "account_id": "root", "wait_reason": None},
            {"job_id": f"{array}_2", "status": "failed", "account_id": "root", "wait_reason": None},
            {"job_id": stuck, "status": "waiting", "account_id": "bio", "wait_reason": "Resources"},
        ]
        held = "SELECT job_id, gpu_index FROM silver_held_gpus JOIN silver_jobs USING (job_key) ORDER BY ALL"
        # Only of jobs that run.
        assert rows_of(flow.lake, held) == [{"job_id": long, "gpu_index": index} for index in range(4)]
        site.run("scontrol", "update", "node=g2", "state=resume")
        site.run("scancel", stuck)
        site.run("scontrol", "requeue", long)
        site.wait_until(("squeue", "-h", "-j", long, "-o", "%T"), "PENDING")
        site.run("scancel", long)
        site.wait_until(("sacct", "-n", "-X", "-P", "-D", "-j", long, "-o", "State"), "CANCELLED")
        pull(site, flow, since)
        assert len(rows_of(flow.lake, held)) == 4
    jobs = rows_of(flow.lake, "SELECT job_id, status FROM silver_jobs ORDER BY job_id")
    assert jobs == [
        {"job_id": long, "status": "cancelled"},
        {"job_id": f"{array}_1", "status": "succeeded"},
        {"job_id": f"{array}_2", "status": "failed"},
        {"job_id": stuck, "status": "cancelled"},
    ]
    machines = rows_of(flow.lake, "SELECT machine_id, gpu_type, gpus, cores FROM silver_machines ORDER BY ALL")
    assert machines == [
        {"machine_id": "g1", "gpu_type": "a100", "gpus": 4, "cores": 8.0},
        {"machine_id": "g2", "gpu_type": "a100", "gpus": 4, "cores": 8.0},
        {"machine_id": "g3", "gpu_type": "h100", "gpus": 2, "cores": 8.0},
    ]
    assert rows_of(
        flow.lake, "SELECT partition_id, state, is_default, nodes, gpus, most_run_seconds FROM silver_partitions"
    ) == [
        {
            "partition_id": "gpu",
            "state": "UP",
            "is_default": True,
            "nodes": "g1,g2,g3",
            "gpus": 10.0,
            "most_run_seconds": None,
        }
    ]
    assert rows_of(flow.lake, "SELECT reservation_id, nodes, accounts, is_maintenance FROM silver_reservations") == [
        {"reservation_id": "class", "nodes": "g3", "accounts": "bio", "is_maintenance": False},
        {"reservation_id": "fix", "nodes": "g3", "accounts": None, "is_maintenance": True},
    ]
    # The one for maintenance has not begun.
    assert rows_of(
        flow.lake,
        "SELECT reservation_id, gpus, held_gpu_hours, unused_gpu_hours > 0 AS is_unused FROM gold_reservations",
    ) == [{"reservation_id": "class", "gpus": 2.0, "held_gpu_hours": 0.0, "is_unused": True}]
    assert rows_of(
        flow.lake,
        "SELECT partition_id, account_id, qos_id, reason, jobs, waiting_jobs FROM gold_wait_reasons_daily"
        " WHERE pulled_waiting_gpu_hours > 0",
    ) == [
        {
            "partition_id": "gpu",
            "account_id": "bio",
            "qos_id": "normal",
            "reason": "Resources",
            "jobs": 1,
            "waiting_jobs": 0,
        }
    ]
    drained = rows_of(
        flow.lake,
        "SELECT machine_id, condition, reason, is_end_known FROM silver_machine_states WHERE condition = 'drained'",
    )
    assert drained == [{"machine_id": "g2", "condition": "drained", "reason": "fan = bad", "is_end_known": True}]
    (hours,) = rows_of(
        flow.lake,
        """
        SELECT
            sum(capacity_gpu_hours) FILTER (gpu_type = 'h100') = sum(unallocated_gpu_hours) FILTER (gpu_type = 'h100')
                AS is_never_used_node_free,
            sum(down_gpu_hours) > 0 AND sum(down_gpu_hours) < 4 * 120 / 3600.0 AS is_down_as_long_as_drained,
            sum(unknown_gpu_hours) AS unknown
        FROM gold_machine_hours
        """,
    )
    assert hours == {"is_never_used_node_free": True, "is_down_as_long_as_drained": True, "unknown": 0.0}
