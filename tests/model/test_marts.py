"""Marts, each on a lake made by hand in which the answer can be counted on fingers."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from conftest import built_from, rows_of
from gpulake.core.config import Config
from gpulake.flow import Flow
from hand_made import Attempt, write_trace

pytestmark = pytest.mark.slow

HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
SACCT = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList\n"


def test_ettr_leaves_out_the_time_between_attempts(tmp_path: Path) -> None:
    # Ten hours, of which a failed attempt ran for one, nothing for six, and the good one for two.
    attempts = [Attempt("j", "ann", 0, 1), Attempt("j", "ann", 1, 2, status="failed"), Attempt("j", "ann", 8, 10)]
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([write_trace(tmp_path / "raw", attempts)])
    flow.build(["gold_goodput_daily"])
    (row,) = rows_of(flow.lake, "SELECT ended_jobs, restarts, goodput_ratio, ettr_ratio FROM gold_goodput_daily")
    assert row == {
        "ended_jobs": 1,
        "restarts": 2,
        "goodput_ratio": pytest.approx(0.75),
        "ettr_ratio": pytest.approx(0.3),
    }


def test_the_capacity_of_helios_is_that_of_each_day(tmp_path: Path) -> None:
    files = {
        "Venus/cluster_log.csv": HELIOS
        + "7,u1,vcA,8,16,2,COMPLETED,2020-06-08 00:00:00,2020-06-08 00:00:00,2020-06-12 00:00:00,345600,0\n",
        # The tenth is left out.
        "Venus/cluster_gpu_number.csv": "date,vcA,total\n2020-06-08,8,8\n2020-06-09,16,16\n2020-06-11,12,12\n",
    }
    query = "SELECT dt, sum(capacity_gpu_hours) / 24 AS gpus FROM gold_ledger_hourly GROUP BY dt HAVING gpus > 0"
    assert [
        tuple(row.values())
        for row in rows_of(built_from(tmp_path, files, ["gold_ledger_hourly"]), f"{query} ORDER BY dt")
    ] == [(date(2020, 6, day), pytest.approx(gpus)) for day, gpus in ((8, 8), (9, 16), (10, 16), (11, 12))]


def sacct(*rows: str) -> str:
    """Of an hour each: number, name, user, state and node."""
    tail = "2026-03-01T01:00:00|2026-03-01T01:00:00|2026-03-01T02:00:00|1|gres/gpu=1"
    lines = []
    for row in rows:
        number, name, user, state, node = row.split()
        lines.append(f"{number}|{name}|{user}|c|{state}|{tail}|{node}\n")
    return SACCT + "".join(lines)


def test_a_machine_without_peers_is_reported_and_is_no_lemon(tmp_path: Path) -> None:
    inventory = "cluster,machine,gpu_type,gpus,cores,memory_gib\n" + "".join(
        f"c,{name},{kind},8,8,64\n" for name, kind in (("a", "T4"), ("b", "T4"), ("alone", "H100"))
    )
    jobs = [f"{number} train ann FAILED alone" for number in range(6)]
    text = sacct(*jobs, "6 train ann FAILED a", "7 train ann COMPLETED b")
    lake = built_from(tmp_path, {"machines.csv": inventory, "sacct.txt": text}, ["gold_lemon_machines"])
    columns = (
        "rank, machine_id, jobs, failed_jobs, expected_failed_jobs, excess_deviations, is_lemon, gpu_hours_at_risk"
    )
    rows = rows_of(lake, f"SELECT {columns} FROM gold_lemon_machines ORDER BY rank")
    assert [row["machine_id"] for row in rows] == ["a", "b", "alone"]
    assert tuple(rows[-1].values()) == (3, "alone", 6, 6, None, None, False, None)


def test_jobs_that_are_called_after_their_shell_do_not_recur(tmp_path: Path) -> None:
    generic = ("bash", "sh", "Python3.11", "interactive", "wrap", "sleep", "sys/dashboard/sys/jupyter")
    jobs = [f"{number} {name} ann COMPLETED n1" for number, name in enumerate(generic)]
    named = [f"{number} {name} ann COMPLETED n1" for number, name in ((20, "train"), (21, "train"), (22, "bash-tests"))]
    lake = built_from(tmp_path, {"sacct.txt": sacct(*jobs, *named)}, ["gold_group_recurrence"])
    assert rows_of(lake, "SELECT group_id, jobs FROM gold_group_recurrence ORDER BY group_id") == [
        {"group_id": "ann/bash-tests", "jobs": 1},
        {"group_id": "ann/train", "jobs": 2},
    ]
    (row,) = rows_of(lake, "SELECT count(*) AS jobs FROM silver_jobs WHERE group_id = 'ann'")
    assert row == {"jobs": len(generic)}
