"""Each published trace in its own words, and what silver makes of it, row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import built_from, rows_of, without_keys
from gpulake.core.config import Config
from gpulake.flow import Flow
from model.expected import at, attempt, holding, job, ledger, same, task

pytestmark = pytest.mark.slow

TABLES = ["silver_jobs", "silver_tasks", "silver_instance_usage", "gold_ledger_hourly"]

SEREN = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,"
    "fail_time,stop_time,duration,queue,gpu_time\n"
)
ACME = {
    "seren_1.csv": SEREN + "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
    "2023-03-01 00:20:51+08:00,117,32,936.0\n"
    "9,u1,2,16,,Eval,CANCELLED,2023-03-01 00:30:00+08:00,,2023-03-01 00:40:00+08:00,0,600,0\n"
    "10,u1,2,16,64,SFT,RUNNING,2023-03-01 01:00:00+08:00,2023-03-01 01:00:00+08:00,,0,0,0\n",
    "seren_2.csv": SEREN + "10,u1,2,16,64,SFT,COMPLETED,2023-03-01 01:00:00+08:00,2023-03-01 01:00:00+08:00,"
    "2023-03-01 02:00:00+08:00,3600,0,57600.0\n",
    "kalos.csv": KALOS
    + "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
    "2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
    "dlcstopped,uf794,,0,4,,,Debug,CANCELLED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:00+00:00,,,"
    "2023-05-17 11:00:30+00:00,,,\n",
}


def test_acme_is_counted_from_begin_to_end_whatever_it_calls_its_duration(tmp_path: Path) -> None:
    lake = built_from(tmp_path, ACME, [*TABLES, "gold_job_efficiency_daily"])
    failed = job(
        "seren", "5778432", "failed", at("2023-02-28 16:18:22"), at("2023-02-28 16:18:54"), at("2023-02-28 16:20:51"),
        user_id="u5907", workload="Other",
    )  # fmt: skip
    never = job(
        "seren", "9", "cancelled", at("2023-02-28 16:30:00"), None, at("2023-02-28 16:40:00"),
        user_id="u1", workload="Eval",
    )  # fmt: skip
    done = job(
        "seren", "10", "succeeded", at("2023-02-28 17:00:00"), at("2023-02-28 17:00:00"), at("2023-02-28 18:00:00"),
        user_id="u1", workload="SFT",
    )  # fmt: skip
    kalos = job(
        "kalos", "dlctk696s0jbvitv", "failed", at("2023-05-17 11:00:58"), at("2023-05-17 11:01:08"),
        at("2023-05-17 11:01:16"), user_id="uf794", workload="Other",
    )  # fmt: skip
    stopped = job(
        "kalos", "dlcstopped", "cancelled", at("2023-05-17 11:00:00"), at("2023-05-17 11:00:00"),
        at("2023-05-17 11:00:30"), user_id="uf794", workload="Debug",
    )  # fmt: skip
    assert same(without_keys(lake, "silver_jobs"), [failed, never, done, kalos, stopped])
    assert same(
        without_keys(lake, "silver_tasks"),
        [
            task(failed, 1, 8.0, "A100", requested_cores=128.0),
            task(never, 2, 8.0, "A100"),
            task(done, 2, 8.0, "A100", requested_cores=32.0),
            task(kalos, 8, 8.0, "A100", requested_cores=120.0, requested_memory_bytes=10**12),
            task(stopped, 1, 0.0, None, requested_cores=4.0),
        ],
    )
    attempts = [attempt(failed, 8.0, "A100"), attempt(done, 16.0, "A100"), attempt(kalos, 64.0, "A100")]
    assert [row["run_seconds"] for row in attempts] == [117.0, 3600.0, 8.0]
    assert same(without_keys(lake, "silver_instances"), [*attempts, attempt(stopped, 0.0, None)])
    assert same(
        without_keys(lake, "silver_holdings"),
        [holding(attempts[0], "failed"), holding(attempts[1], "unobserved"), holding(attempts[2], "failed")],
    )
    # No sensor, no efficiency.
    assert rows_of(lake, "SELECT DISTINCT used_gpu_hours, gpu_efficiency_ratio FROM gold_job_efficiency_daily") == [
        {"used_gpu_hours": 0.0, "gpu_efficiency_ratio": None}
    ]
    assert ledger(lake) == {
        "seren": (pytest.approx(8 * 117 / 3600 + 16), 0),
        "kalos": (pytest.approx(64 * 8 / 3600), 0),
    }


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_a_job_of_helios_holds_a_part_of_its_cluster_s_pool_in_the_cluster_s_own_time(tmp_path: Path) -> None:
    files = {
        "Venus/cluster_log.csv": HELIOS
        + "7,u1,vcA,8,16,2,NODE_FAIL,2020-06-09 18:00:00,2020-06-09 18:00:10,2020-06-09 19:00:10,3600,10\n",
        "Earth/cluster_log.csv": HELIOS
        + "7,u2,vcB,0,4,1,TIMEOUT,2020-06-09 18:00:00,2020-06-09 18:00:00,2020-06-09 18:30:00,1800,0\n"
        "8,u2,vcB,1,4,1,PENDING,2020-06-09 18:10:00,,,,\n",
        "Venus/cluster_gpu_number.csv": "date,vcA,total\n2020-06-08,8,8\n2020-06-09,16,16\n",
    }
    lake = built_from(tmp_path, files, TABLES)
    venus = job(
        "venus", "7", "node_fail", at("2020-06-09 10:00:00"), at("2020-06-09 10:00:10"), at("2020-06-09 11:00:10"),
        user_id="u1", account_id="vcA",
    )  # fmt: skip
    earth = job(
        "earth", "7", "timeout", at("2020-06-09 10:00:00"), at("2020-06-09 10:00:00"), at("2020-06-09 10:30:00"),
        user_id="u2", account_id="vcB",
    )  # fmt: skip
    waits = job("earth", "8", "waiting", at("2020-06-09 10:10:00"), None, None, user_id="u2", account_id="vcB")
    assert same(without_keys(lake, "silver_jobs"), [venus, earth, waits])
    assert same(
        without_keys(lake, "silver_tasks"),
        [
            task(venus, 2, 4.0, None, requested_cores=8.0),
            task(earth, 1, 0.0, None, requested_cores=4.0),
            task(waits, 1, 1.0, None, requested_cores=4.0),
        ],
    )
    attempts = [attempt(venus, 8.0, None), attempt(earth, 0.0, None), attempt(waits, 1.0, None)]
    assert same(without_keys(lake, "silver_instances"), attempts)
    assert same(without_keys(lake, "silver_holdings"), [holding(attempts[0], "failed")])
    pool = {"cluster_id": "venus", "machine_id": "(all machines)", "gpu_type": None, "gpu_model": None, "gpus": 16}
    assert without_keys(lake, "silver_machines") == [{**pool, "cores": None, "memory_bytes": None}]
    assert ledger(lake) == {"venus": (pytest.approx(8), 0)}
    assert rows_of(lake, "SELECT sum(capacity_gpu_hours) AS n FROM gold_ledger_hourly") == [
        {"n": pytest.approx(16 * 3610 / 3600)}
    ]


NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
OPENB = {
    "openb_node_list_gpu_node.csv": NODES
    + "openb-node-0000,64000,262144,8,V100M32\nopenb-node-0001,64000,262144,8,T4\n",
    "openb_pod_list_default.csv": PODS + "p0,12000,16384,1,460,,LS,Running,0,7200,0\n"
    "p1,6000,12288,2,1000,V100M32,BE,Failed,3600,7200,3610\n"
    "p2,6000,12288,1,500,V100M16|V100M32,BE,Pending,3600,7200,\n",
    "openb_pod_list_multigpu20.csv": PODS + "p1,6000,12288,2,1000,V100M32,BE,Succeeded,0,99999,0\n",
}


def test_a_pod_of_openb_holds_a_share_of_a_gpu_from_the_first_second_of_the_trace(tmp_path: Path) -> None:
    lake = built_from(tmp_path, OPENB, TABLES)
    runs = job("openb", "p0", "running", at("1970-01-01"), at("1970-01-01"), at("1970-01-01 02:00:00"), account_id="LS")
    fails = job(
        "openb", "p1", "failed", at("1970-01-01 01:00:00"), at("1970-01-01 01:00:10"), at("1970-01-01 02:00:00"),
        account_id="BE", requested_gpu_type="V100M32",
    )  # fmt: skip
    waits = job(
        "openb", "p2", "waiting", at("1970-01-01 01:00:00"), None, at("1970-01-01 02:00:00"),
        account_id="BE", requested_gpu_type="V100M16|V100M32",
    )  # fmt: skip
    # A pod that runs or waits has not ended; until it was deleted it held its GPUs, or waited for them.
    unended = [{**each, "ended_at": None, "turnaround_seconds": None} for each in (runs, waits)]
    assert same(without_keys(lake, "silver_jobs"), [fails, *unended])
    asked = {"requested_cores": 6.0, "requested_memory_bytes": 12 << 30}
    assert same(
        without_keys(lake, "silver_tasks"),
        [
            task(runs, 1, 0.46, None, requested_cores=12.0, requested_memory_bytes=16 << 30),
            task(fails, 1, 2.0, "V100M32", **asked),
            task(waits, 1, 0.5, None, **asked),
        ],
    )
    attempts = [attempt(runs, 0.46, None), attempt(fails, 2.0, "V100M32")]
    assert same(without_keys(lake, "silver_instances"), [*attempts, attempt(waits, 0.5, None, ended_at=None)])
    assert same(
        without_keys(lake, "silver_holdings"), [holding(attempts[0], "unobserved"), holding(attempts[1], "failed")]
    )
    assert ledger(lake) == {"openb": (pytest.approx(2 * 0.46 + 2 * 3590 / 3600), 0)}


def test_lists_of_nodes_are_never_mixed(tmp_path: Path) -> None:
    nodes = "openb-node-0000,96000,524288,0,\nopenb-node-0001,64000,262144,8,V100M32\n"
    lake = built_from(tmp_path, {**OPENB, "openb_node_list_all_node.csv": NODES + nodes}, TABLES)
    assert without_keys(lake, "silver_machines") == [
        {
            "cluster_id": "openb",
            "machine_id": f"openb-node-000{number}",
            "gpu_type": gpu_type,
            "gpu_model": gpu_model,
            "gpus": gpus,
            "cores": cores,
            "memory_bytes": memory << 30,
        }
        for number, gpu_type, gpu_model, gpus, cores, memory in [
            (0, None, None, 0, 96.0, 512),
            (1, "V100M32", "V100 32GB", 8, 64.0, 256),
        ]
    ]


def philly(job_id: str, status: str, submitted: str, *attempts: tuple[str, str, dict[str, int]]) -> dict[str, object]:
    return {
        "status": status,
        "vc": "ee9e8c",
        "jobid": job_id,
        "user": "u",
        "submitted_time": submitted,
        "attempts": [
            {
                "start_time": begin,
                "end_time": end,
                "detail": [
                    {"ip": ip, "gpus": [f"gpu{number}" for number in range(gpus)]} for ip, gpus in machines.items()
                ],
            }
            for begin, end, machines in attempts
        ],
    }


def test_philly_s_retries_are_attempts_and_the_last_one_is_the_job_s(tmp_path: Path) -> None:
    day = "2017-10-07"
    log = [
        philly(
            "application_1", "Pass", f"{day} 01:00:00",
            (f"{day} 01:00:00", f"{day} 02:00:00", {"m2": 2, "m1": 8}),
            ("None", "None", {}),
            (f"{day} 02:00:00", "None", {"m3": 4, "m4": 4}),
            (f"{day} 03:00:00", f"{day} 04:00:00", {"m9": 8}),
        ),
        philly("application_2", "Killed", f"{day} 01:00:00"),
    ]  # fmt: skip
    machines = "machineId, number of GPUs, single GPU mem\n" + "".join(
        f"m{number}, {gpus}, 24GB\n" for number, gpus in [(1, 8), (2, 2), (3, 8), (4, 8), (9, 2)]
    )
    lake = built_from(tmp_path, {"cluster_job_log": json.dumps(log), "cluster_machine_list": machines}, TABLES)
    # Clocks in Seattle are seven hours behind in October.
    known = {"user_id": "u", "account_id": "ee9e8c"}
    passed = job(
        "philly", "application_1", "succeeded", at(f"{day} 08:00:00"), at(f"{day} 08:00:00"), at(f"{day} 11:00:00"),
        **known,
    )  # fmt: skip
    never = job("philly", "application_2", "cancelled", at(f"{day} 08:00:00"), None, None, **known)
    assert same(without_keys(lake, "silver_jobs"), [passed, never])
    assert same(without_keys(lake, "silver_tasks"), [task(passed, 2, 5.0, None), task(never, 1, 0.0, None)])
    tries = [(1, "failed", 8, 9, [8.0, 2.0]), (2, "failed", 9, 10, [4.0, 4.0]), (3, "succeeded", 10, 11, [8.0])]
    attempts = [
        attempt(
            passed, gpus, None, attempt=number, status=status, started_at=at(f"{day} {begin:02d}:00:00"),
            ended_at=at(f"{day} {end:02d}:00:00"),
        )
        for number, status, begin, end, machine_gpus in tries for gpus in machine_gpus
    ]  # fmt: skip
    assert same(without_keys(lake, "silver_instances"), attempts)
    assert same(
        without_keys(lake, "silver_holdings"),
        [holding(row, "failed" if row["status"] == "failed" else "unobserved") for row in attempts],
    )
    # The list says that m9 has two GPUs, the log that it gave eight: there are no more than the list has.
    assert ledger(lake) == {"philly": (pytest.approx(10 + 8 + 2), 0)}
    over = rows_of(lake, "SELECT sum(overcommitted_gpu_hours) AS n FROM gold_ledger_hourly")
    assert over == [{"n": pytest.approx(6)}]


def test_traces_share_a_lake_and_not_their_ids(tmp_path: Path, trace: tuple[Path, object]) -> None:
    seven = "7,u,{},2023-03-01 00:00:00{zone},2023-03-01 00:00:00{zone},2023-03-01 01:00:00{zone},3600,0"
    files = {
        **OPENB,
        "seren.csv": SEREN + seven.format("1,8,1,Other,COMPLETED", zone="+08:00") + ",0\n",
        "Venus/log.csv": HELIOS + seven.format("vc,4,1,1,COMPLETED", zone="") + "\n",
        "Earth/log.csv": HELIOS + seven.format("vc,2,1,1,COMPLETED", zone="") + "\n",
        "sacct.txt": "JobID|State|Start|End|AllocTRES|NodeList\n"
        "7|COMPLETED|2023-03-01T00:00:00|2023-03-01T01:00:00|gres/gpu=1|n1\n",
    }
    files |= {path.name: path.read_text() for path in trace[0].glob("*.csv")}
    lake = built_from(tmp_path, files, TABLES)
    found = rows_of(lake, "SELECT count(*) AS n, count(DISTINCT job_key) AS keys FROM silver_jobs WHERE job_id = '7'")
    assert found == [{"n": 4, "keys": 4}]
    held = {cluster: round(float(str(hours)), 6) for cluster, (hours, _) in ledger(lake).items() if cluster != "synth"}
    assert held == {"seren": 8, "venus": 4, "earth": 2, "slurm": 1, "openb": round(2 * 0.46 + 2 * 3590 / 3600, 6)}


@pytest.mark.real
def test_the_real_pods_of_2023_fit_into_their_nodes(tmp_path: Path, real_data: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=2))
    flow.land([real_data / "alibaba_openb_v2023"])
    assert [result.name for result in flow.build().tests if result.status != "pass"] == []
    found = rows_of(flow.lake, "SELECT status, count(*) AS n, count(started_at) AS begun FROM silver_jobs GROUP BY 1")
    assert {row["status"]: (row["n"], row["begun"]) for row in found} == {
        "running": (5193, 5193),
        "failed": (1870, 1870),
        "succeeded": (192, 192),
        "waiting": (897, 0),
    }
    machines = rows_of(flow.lake, "SELECT count(*) AS n, sum(gpus)::bigint AS gpus FROM silver_machines")
    assert machines == [{"n": 1523, "gpus": 6212}]
    # Of a few pods that ran before the others came, what they held before is left out.
    (span,) = rows_of(
        flow.lake, "SELECT epoch(observed_from) AS begin, epoch(observed_until) AS until FROM silver_clusters"
    )
    held = f"least(deletion_time, {span['until']}) - greatest(scheduled_time, {span['begin']})"
    pods = f"SELECT num_gpu * gpu_milli / 1000 * greatest({held}, 0) / 3600 AS hours FROM bronze_openb_pods"
    pods += " WHERE scheduled_time IS NOT NULL"
    (total,) = rows_of(flow.lake, f"SELECT sum(hours) AS hours FROM ({pods})")
    assert ledger(flow.lake) == {"openb": (pytest.approx(total["hours"], rel=1e-6), 0)}
