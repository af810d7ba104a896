"""What sacct tells, in silver: arrays, steps, requeues, node lists, summaries of jobstats, the clocks of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import built_from, rows_of, without_keys
from gpulake.core.config import Cluster, Config
from gpulake.flow import Flow
from model.expected import at, attempt, holding, job, ledger, same, task
from model.sacct import CLUSTERS, dump, gpus, jobstats, times

pytestmark = pytest.mark.slow

TABLES = ["silver_jobs", "silver_tasks", "silver_instance_usage", "gold_ledger_hourly"]

USED = {
    "nodes": {
        "gpu01": {
            "cpus": 8,
            "total_time": 57600.0,
            "used_memory": 1 << 30,
            "total_memory": 1 << 35,
            "gpu_utilization": {"0": 50.0, "1": 100.0},
            "gpu_used_memory": {"0": 10, "1": 20},
            "gpu_total_memory": {"0": 100, "1": 100},
        },
        "gpu02": {"cpus": 8, "total_time": 0.0, "used_memory": 0, "gpu_utilization": {"0": 0, "1": 0}},
    },
    "total_time": 14400,
    "gpus": 4,
}


def test_a_job_on_two_nodes_over_the_end_of_summer_time(tmp_path: Path) -> None:
    row = {
        "JobID": "100",
        "State": "COMPLETED",
        **times("2024-11-03T00:10:00", "2024-11-03T00:30:00", "2024-11-03T03:30:00"),
        "Eligible": "2024-11-03T00:20:00",
        "NNodes": "2",
        "ReqCPUS": "16",
        "ReqMem": "8G",
        "ReqTRES": gpus(4),
        "AllocTRES": gpus(4, "h100"),
        "NodeList": "gpu[01-02]",
        "AdminComment": jobstats(USED),
    }
    step = {**row, "JobID": "100.0", "User": "", "AdminComment": "", "TRESUsageInAve": "gres/gpuutil=99", "NNodes": "2"}
    lake = built_from(tmp_path, {"sacct.txt": dump(row, step)}, TABLES, clusters=CLUSTERS)
    # Half past midnight was summer time still; half past three was not: four hours, though the clock shows three.
    done = job(
        "tiger", "100", "succeeded", at("2024-11-03 04:10:00"), at("2024-11-03 04:30:00"), at("2024-11-03 08:30:00"),
        user_id="ann", group_id="ann/train", account_id="math", requested_gpu_type="h100",
    )  # fmt: skip
    assert without_keys(lake, "silver_jobs") == [done]
    asked = {"requested_cores": 8.0, "requested_memory_bytes": 4 << 30, "launched_at": at("2024-11-03 04:20:00")}
    waits = {"launch_wait_seconds": 600.0, "start_wait_seconds": 600.0}
    assert same(without_keys(lake, "silver_tasks"), [task(done, 2, 2.0, "h100", **asked, **waits)])
    tried = attempt(done, 2.0, "h100")
    assert same(without_keys(lake, "silver_instances"), [tried, tried])
    assert same(
        without_keys(lake, "silver_holdings"),
        [holding(tried, "used", used_gpus=1.5), holding(tried, "idle", used_gpus=0.0)],
    )
    unknown = {"mean_memory_bytes": None, "mean_gpu_memory_bytes": None}
    unknown |= {"network_read_bytes": None, "network_written_bytes": None}
    assert same(
        without_keys(lake, "silver_instance_usage"),
        [
            {"used_cores": 4.0, "used_gpus": 1.5, "peak_memory_bytes": 1 << 30, "peak_gpu_memory_bytes": 30, **unknown},
            {"used_cores": 0.0, "used_gpus": 0.0, "peak_memory_bytes": 0, "peak_gpu_memory_bytes": None, **unknown},
        ],
    )
    assert ledger(lake) == {"tiger": (pytest.approx(16), 0)}
    parts = "sum(used_gpu_hours) AS p, sum(under_used_gpu_hours) AS u, sum(idle_gpu_hours) AS i"
    assert rows_of(lake, f"SELECT {parts} FROM gold_ledger_hourly") == [
        {"p": pytest.approx(6), "u": pytest.approx(2), "i": pytest.approx(8)}
    ]


def test_tasks_of_an_array_are_jobs_and_what_waits_of_it_is_one(tmp_path: Path) -> None:
    day = "2024-05-01T"
    ran = {
        "JobID": "71_3", "JobIDRaw": "74", "State": "CANCELLED by 1000", "NodeList": "gpu03",
        "AllocTRES": gpus(1, "a100"), **times(f"{day}09:00:00", f"{day}10:00:00", f"{day}11:00:00"),
    }  # fmt: skip
    rest = {
        "JobID": "71_[4-9%2]",
        "JobIDRaw": "71",
        "State": "PENDING",
        "ReqTRES": gpus(2),
        **times(f"{day}09:00:00", "", ""),
    }
    less = {**rest, "JobID": "71_[10%2]"}
    used_up = [
        {**rest, "JobID": "72_[1-2]", "JobIDRaw": "72"},
        {**ran, "JobID": "72_1", "JobIDRaw": "73"},
        {**ran, "JobID": "72_2", "JobIDRaw": "72"},
    ]
    lake = built_from(
        tmp_path, {"monday.txt": dump(ran, rest), "tuesday.txt": dump(less, ran, *used_up)}, clusters=CLUSTERS
    )
    known = {"user_id": "ann", "group_id": "ann/train", "account_id": "math"}
    jobs = [
        job(
            "tiger", name, "cancelled", at("2024-05-01 13:00:00"), at("2024-05-01 14:00:00"), at("2024-05-01 15:00:00"),
            **known, requested_gpu_type="a100",
        )
        for name in ("71_3", "72_1", "72_2")
    ]  # fmt: skip
    waits = job("tiger", "71_[]", "waiting", at("2024-05-01 13:00:00"), None, None, **known)
    assert same(without_keys(lake, "silver_jobs"), [*jobs, waits])
    assert same(
        without_keys(lake, "silver_tasks"), [*(task(row, 1, 1.0, "a100") for row in jobs), task(waits, 1, 2.0, None)]
    )
    assert same(
        without_keys(lake, "silver_instances"),
        [*(attempt(row, 1.0, "a100") for row in jobs), attempt(waits, 2.0, None)],
    )
    assert ledger(lake) == {"tiger": (pytest.approx(3), 0)}


def test_a_job_that_was_requeued_has_attempts_and_steps_tell_what_each_used(tmp_path: Path) -> None:
    day = "2024-05-01T"
    first = {
        "JobID": "80", "State": "REQUEUED", "AllocTRES": gpus(4), "NodeList": "gpu[03-04]", "NNodes": "2",
        **times(f"{day}10:00:00", f"{day}10:00:00", f"{day}10:30:00"),
    }  # fmt: skip
    again = {**first, "State": "COMPLETED", "NodeList": "gpu05", "NNodes": "1"}
    again |= times(f"{day}10:30:00", f"{day}11:00:00", f"{day}12:00:00")
    step = {**again, "JobID": "80.batch", "TRESUsageInAve": "gres/gpuutil=0"}
    busy = {**again, "JobID": "80.0", "TRESUsageInAve": "cpu=1,gres/gpuutil=50"}
    lost = {**first, "JobID": "81", "State": "RUNNING", "End": "Unknown"}
    anew = {
        **again,
        "JobID": "81",
        "NodeList": "None assigned",
        "AllocTRES": "",
        "Start": "Unknown",
    }
    anew |= {"State": "PENDING", "End": "Unknown", "ReqTRES": gpus(4)}
    files = {
        "sacct.txt": dump(first, again, step, busy, lost, anew),
        "later.txt": dump(again, {**first, "JobName": "x"}),
    }
    lake = built_from(tmp_path, files, TABLES, clusters=CLUSTERS)
    found = rows_of(
        lake,
        "SELECT j.job_id, i.attempt, i.status, i.gpus, i.started_at, i.ended_at, h.used_gpus, h.bucket "
        "FROM silver_instances i JOIN silver_jobs j USING (job_key) "
        "LEFT JOIN silver_holdings h USING (instance_key, attempt) ORDER BY 1, 2, i.ended_at",
    )
    begin, stop = at("2024-05-01 14:00:00"), at("2024-05-01 14:30:00")
    one_hour = (at("2024-05-01 15:00:00"), at("2024-05-01 16:00:00"))
    assert [tuple(row.values()) for row in found] == [
        ("80", 1, "interrupted", 2.0, begin, stop, None, "interrupted"),
        ("80", 1, "interrupted", 2.0, begin, stop, None, "interrupted"),
        ("80", 2, "succeeded", 4.0, *one_hour, 2.0, "used"),
        # It was said to be running, and then to wait, submitted anew: so it ran until then.
        ("81", 1, "interrupted", 2.0, begin, stop, None, "interrupted"),
        ("81", 1, "interrupted", 2.0, begin, stop, None, "interrupted"),
        ("81", 2, "waiting", 4.0, None, None, None, None),
    ]
    jobs = rows_of(lake, "SELECT job_id, status, submitted_at, started_at, ended_at FROM silver_jobs ORDER BY 1")
    assert [tuple(row.values()) for row in jobs] == [
        ("80", "succeeded", begin, begin, one_hour[1]),
        ("81", "waiting", begin, begin, None),
    ]
    assert ledger(lake) == {"tiger": (pytest.approx(4 * 0.5 + 4 + 4 * 0.5), 0)}


STATES = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "failed",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "PREEMPTED": "interrupted",
    "REVOKED": "interrupted",
    "CANCELLED by 1000": "cancelled",
    "CANCELLED+": "cancelled",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "REQUEUE_HOLD": "waiting",
    "INVENTED": "unknown",
}


def test_states_have_one_meaning_and_what_never_began_holds_nothing(tmp_path: Path) -> None:
    day = "2024-05-01T"
    rows = [
        {"JobID": str(number), "State": state, "AllocTRES": gpus(1), "NodeList": f"n{number}"}
        | times(f"{day}10:00:00", f"{day}10:00:00", f"{day}11:00:00")
        for number, state in enumerate(STATES, start=1)
    ]
    never = {
        "JobID": "98",
        "State": "CANCELLED by 7",
        "ReqTRES": gpus(8),
        **times(f"{day}10:00:00", "None", f"{day}10:05:00"),
    }
    at_once = {**never, "JobID": "99", "Start": f"{day}10:05:00"}
    yesterday = {**rows[0], "State": "RUNNING", "End": "Unknown"}
    files = {"yesterday.txt": dump(yesterday, never), "today.txt": dump(*rows, never, at_once)}
    lake = built_from(tmp_path, files, TABLES)
    found = rows_of(lake, "SELECT job_id, status FROM silver_jobs ORDER BY job_id::int")
    expected = {str(number): status for number, status in enumerate(STATES.values(), start=1)}
    assert {row["job_id"]: row["status"] for row in found} == {**expected, "98": "cancelled", "99": "cancelled"}
    held = "SELECT i.gpus FROM silver_jobs j LEFT JOIN silver_instances i USING (job_key) WHERE job_id IN ('98', '99')"
    assert [row["gpus"] for row in rows_of(lake, f"{held} ORDER BY job_id")] == [None, None]
    assert {row["job_id"]: row["requested_gpus"] for row in without_keys(lake, "silver_tasks")}["98"] == 8.0
    # All but the one that waits and the one of which nobody knows what it did, an hour each.
    assert ledger(lake) == {"tiger": (pytest.approx(len(STATES) - 2), 0)}


def test_an_inventory_by_hand_names_the_gpus_and_a_recorded_outage_is_down(tmp_path: Path) -> None:
    row = {"JobID": "1", "Cluster": "", "State": "RUNNING", "AllocTRES": gpus(2), "NodeList": "gpu01"}
    row |= times("2024-05-01T00:00:00", "2024-05-01T00:00:00", "")
    done = {**row, "JobID": "2", "State": "COMPLETED", "NodeList": "gpu02", "End": "2024-05-01T10:00:00"}
    files = {
        "sacct.txt": dump(row, done),
        "machines.csv": "cluster,machine,gpu_type,gpus,cores,memory_gib\n"
        + "".join(f"Slurm,gpu0{number},H100,8,,\n" for number in range(1, 4)),
        "outages.csv": "cluster,machine,started_at,ended_at,reason\n"
        "slurm,gpu03,2024-05-01T01:00:00Z,2024-05-01T03:00:00Z,fan\n"
        "slurm,gpu03,2024-05-01T02:00:00Z,2024-05-01T04:30:00Z,disk\n"
        "slurm,gpu03,2024-05-01T09:00:00Z,,link\n"
        "slurm,gpu03,2024-05-02T09:00:00Z,,later\n"
        ",gpu09,2024-05-01T09:00:00Z,2024-05-01T09:30:00Z,unlisted\n",
    }
    lake = built_from(tmp_path, files, TABLES)
    assert {(row["gpu_type"], row["gpus"]) for row in without_keys(lake, "silver_holdings")} == {("H100", 2.0)}
    down = rows_of(lake, "SELECT basis, started_at, ended_at FROM silver_outages ORDER BY 2, 3")
    assert [tuple(row.values()) for row in down] == [
        ("recorded", at("2024-05-01 01:00:00"), at("2024-05-01 04:30:00")),
        ("recorded", at("2024-05-01 09:00:00"), at("2024-05-01 09:30:00")),
        ("recorded", at("2024-05-01 09:00:00"), at("2024-05-01 10:00:00")),
    ]
    assert ledger(lake) == {"slurm": (pytest.approx(2 * 10 + 2 * 10), pytest.approx(8 * 4.5))}


def test_silence_around_a_recorded_outage_is_not_down(tmp_path: Path) -> None:
    rows = [
        {"JobID": f"{number}", "State": "COMPLETED", "AllocTRES": gpus(1), "NodeList": node, **times(*hours)}
        for number, (node, hours) in enumerate(
            [
                ("gpu01", ("2024-05-01T00:00:00", "2024-05-01T00:00:00", "2024-05-03T00:00:00")),
                ("gpu01", ("2024-05-04T00:00:00", "2024-05-04T00:00:00", "2024-05-06T00:00:00")),
                ("gpu02", ("2024-05-01T00:00:00", "2024-05-01T00:00:00", "2024-05-06T00:00:00")),
            ],
            start=1,
        )
    ]
    files = {
        "sacct.txt": dump(*rows),
        "machines.csv": "cluster,machine,gpu_type,gpus,cores,memory_gib\ntiger,gpu01,H100,1,,\ntiger,gpu02,H100,1,,\n",
        "outages.csv": "cluster,machine,started_at,ended_at,reason\n"
        "tiger,gpu01,2024-05-03T06:00:00Z,2024-05-03T12:00:00Z,x\n",
    }
    lake = built_from(tmp_path, files, TABLES)
    down = rows_of(lake, "SELECT basis, started_at, ended_at FROM silver_outages ORDER BY 2")
    # Where outages are recorded, silence says nothing.
    assert [tuple(row.values()) for row in down] == [
        ("recorded", at("2024-05-03 06:00:00"), at("2024-05-03 12:00:00")),
    ]
    assert ledger(lake) == {"tiger": (pytest.approx(48 + 48 + 120), pytest.approx(6))}


def test_settings_say_what_no_node_showed(tmp_path: Path) -> None:
    row = {"JobID": "1", "State": "COMPLETED", "AllocTRES": gpus(8), "NodeList": "gpu01"}
    row |= times("2024-05-01T00:00:00", "2024-05-01T00:00:00", "2024-05-01T01:00:00")
    lake = built_from(tmp_path, {"sacct.txt": dump(row)}, TABLES, clusters={"tiger": Cluster(gpus=64)})
    assert without_keys(lake, "silver_capacity") == [
        {
            "cluster_id": "tiger",
            "machine_id": None,
            "gpu_type": None,
            "gpus": gpus,
            "basis": basis,
            "counted_from": None,
        }
        for gpus, basis in [(8.0, "peak"), (56.0, "settings")]
    ]
    assert ledger(lake) == {"tiger": (pytest.approx(8), 0)}


REAL = [
    "fake-line-break",
    "multiple-multiline",
    "one-multiline",
    "output",
    "output-invalid-utf8",
    "output-midnight-edge-case",
    "output-midnight-edge-case-small",
    "running-output",
    "running-output-large",
]


@pytest.mark.real
def test_the_real_dumps_become_jobs_on_nodes(tmp_path: Path, real_data: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=2))
    flow.land([real_data / "slurm" / f"sample-sacct-{name}.txt" for name in REAL])
    assert [result.name for result in flow.build().tests if result.status != "pass"] == []
    # The same two jobs stand in four of the dumps; a dump of steps alone has no job.
    found = rows_of(flow.lake, "SELECT cluster_id, status, count(*) AS n FROM silver_jobs GROUP BY ALL ORDER BY ALL")
    assert [tuple(row.values()) for row in found] == [
        ("cluster", "failed", 1),
        ("cluster", "interrupted", 1),
        ("learnnode", "failed", 1),
        ("learnnode", "timeout", 1),
        ("slurm", "cancelled", 24),
        ("slurm", "failed", 261),
        ("slurm", "interrupted", 2),
        ("slurm", "succeeded", 18),
        ("slurm", "timeout", 1),
    ]
    nodes = (
        "SELECT count(*) AS n, sum(gpus) AS gpus FROM silver_instances WHERE cluster_id = 'cluster' GROUP BY job_key"
    )
    assert [tuple(row.values()) for row in rows_of(flow.lake, f"{nodes} ORDER BY n")] == [(32, 256.0), (128, 1024.0)]
    held = 1024 * 79_396 + 256 * 87_356
    assert ledger(flow.lake)["cluster"] == (pytest.approx(held / 3600), 0)
