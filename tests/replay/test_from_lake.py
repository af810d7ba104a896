"""Jobs of the lake as a workload, of every kind of source."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import opendc_loader
from conftest import built_from, rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.flow import Flow
from gpulake.flow.workloads import export_lake
from gpulake.lake import Lake
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.from_lake import Selection, from_lake
from gpulake.replay.workload import Clockwork
from hand_made import Attempt, hour, write_trace

MHZ = 2400.0


def milliseconds(hours: float) -> int:
    return int(hour(hours).timestamp() * 1000)


def export(lake: Lake, folder: Path, cluster: str | None = None, **chosen: Any) -> tuple[list[Any], dict[str, Any]]:
    """The tasks as OpenDC loads them, and what is said of them."""
    clock = chosen.pop("clock", Clockwork())
    user, days = chosen.pop("user", None), chosen.pop("days", (None, None))
    out = folder / "out"
    exported = export_lake(Flow(lake.config), cluster, user, days, OpendcExport(**chosen), clock, out)
    assert exported.summary == json.loads((out / "export.json").read_text())
    tasks = opendc_loader.load(out)
    assert len(tasks) == exported.summary["tasks"]
    for task in tasks:
        assert sum(piece[0] for piece in task.fragments) == task.duration
    return tasks, exported.summary


def pai(folder: Path, *attempts: Attempt) -> Lake:
    flow = Flow(Config(lake=folder / "lake", threads=1))
    flow.land([write_trace(folder / "raw", attempts)])
    flow.build()
    return flow.lake


@pytest.mark.slow
def test_an_attempt_is_a_task_with_what_it_asked_for_and_what_it_used(tmp_path: Path) -> None:
    lake = pai(tmp_path, Attempt("j", "ann", 1, 2.5, gpus=2, used=0.5))
    (task,), summary = export(lake, tmp_path)
    assert task == opendc_loader.SimTask(
        0,
        milliseconds(1),
        5_400_000,
        6,  # 600 % of a core
        6 * MHZ,
        31_139,  # 29 GiB, in MB
        2,
        2000.0,
        "j",
        [(5_400_000, 0.01 * MHZ, 500.0)],
    )
    assert summary["from"] == {"kind": "lake", "cluster": "pai", "user": None, "first_day": None, "last_day": None}
    assert summary["left_out"] == summary["inferred"] == summary["split"] == summary["remarks"] == {}
    assert [(host["count"], host["cores"], host["gpus"], host["gpu_busy_watts"]) for host in summary["hosts"]] == [
        (1, 96, 8, 70),
        (1, 96, 16, 300),
    ]


@pytest.mark.slow
def test_an_attempt_without_a_sensor_uses_what_the_measured_ones_of_its_day_do(tmp_path: Path) -> None:
    lake = pai(
        tmp_path,
        Attempt("seen", "ann", 1, 2, gpus=2, used=0.5),
        Attempt("unseen", "bob", 1, 4, gpus=2),
        Attempt("later", "bob", 49, 50, gpus=2),
    )
    tasks, summary = export(lake, tmp_path)
    assert {task.name: task.fragments[0][2] for task in tasks} == {"seen": 500.0, "unseen": 500.0, "later": 500.0}
    query = "SELECT DISTINCT dt, assumed_busy_ratio, assumed_busy_basis FROM gold_energy_daily ORDER BY dt"
    assert [tuple(row.values())[1:] for row in rows_of(lake, query)] == [
        (0.25, basis) for basis in ("day", "cluster", "cluster")
    ]
    assert (summary["gpu_hours"], summary["assumed_gpu_hours"]) == (10.0, 8.0)
    assert {reason: count for reason, count in summary["inferred"].items() if reason.startswith("GPU usage")} == {
        "GPU usage: the mean of what was measured in the cluster on its day": 1,
        "GPU usage: the mean of what was measured in the cluster on other days": 1,
    }
    answer = CliRunner().invoke(root, ["export", "opendc", "--lake", str(lake.root), "--out", str(tmp_path / "again")])
    assert "80.0%  of 10.0 GPU-hours: what was used was not measured" in answer.stderr


@pytest.mark.slow
def test_unmeasured_use_is_assumed_and_reported(tmp_path: Path) -> None:
    (task,), summary = export(pai(tmp_path, Attempt("j", "ann", 0, 1, gpus=0.25)), tmp_path)
    assert (task.gpu_count, task.gpu_capacity, task.fragments) == (1, 250.0, [(3_600_000, 6 * MHZ, 250.0)])
    assert summary["guessed"] == {
        "clock rate of a core: 2400 MHz": 2,
        "CPU usage: all that was asked for, since it was not measured": 1,
        "GPU usage: all that was held, since nothing was measured in the cluster": 1,
        "power of a host's CPUs: OpenDC's default": 2,
    }
    assert summary["remarks"] == {"tasks with a part of a GPU core: OpenDC counts whole ones; see --gpu-cores": 1}


@pytest.mark.slow
def test_a_gpu_of_several_cores_can_be_shared(tmp_path: Path) -> None:
    lake = pai(tmp_path, Attempt("j", "ann", 0, 1, gpus=0.25))
    (task,), summary = export(lake, tmp_path, clock=Clockwork(gpu_cores=4))
    assert (task.gpu_count, task.gpu_capacity, summary["remarks"]) == (1, 250.0, {})
    (_, host) = opendc_loader.hosts(opendc_loader.read_json(tmp_path / "out" / "legacy" / "topology.json"))
    assert (host.gpu_cores, host.gpu_core_mhz) == (64, 250.0)


@pytest.mark.slow
def test_a_retry_is_submitted_when_the_try_before_it_ended(tmp_path: Path) -> None:
    lake = pai(
        tmp_path,
        Attempt("j", "ann", 1, 2, status="failed"),
        Attempt("j", "ann", 4, 5),
    )
    tasks, summary = export(lake, tmp_path)
    assert [(task.name, task.submitted_at, task.duration) for task in tasks] == [
        ("j", milliseconds(1), 3_600_000),
        ("j#2", milliseconds(2), 3_600_000),
    ]
    assert summary["inferred"] == {"submission of a retry: the end of the try before": 1}


@pytest.mark.slow
def test_what_has_no_begin_or_no_end_is_left_out_by_reason(tmp_path: Path) -> None:
    lake = pai(
        tmp_path,
        Attempt("whole", "ann", 1, 2),
        Attempt("open", "ann", 1.5, None, status="running"),
        Attempt("instant", "ann", 1.75, 1.75),
    )
    tasks, summary = export(lake, tmp_path)
    assert [(task.name, task.duration) for task in tasks] == [("whole", 3_600_000), ("instant", 1)]
    assert (summary["read"], summary["left_out"]) == (3, {"still running": 1})
    assert summary["inferred"] == {"duration of 1 ms: it began and ended in the same instant": 1}


@pytest.mark.slow
def test_users_and_days_of_submission_can_be_chosen(tmp_path: Path) -> None:
    lake = pai(
        tmp_path,
        Attempt("first", "ann", 1, 30),
        Attempt("second", "ann", 25, 26),
        Attempt("third", "bob", 25, 26),
        Attempt("fourth", "ann", 49, 50),
    )
    second = date(2026, 1, 2)
    choices: list[tuple[dict[str, Any], set[str]]] = [
        ({"days": (second, second)}, {"second", "third"}),
        ({"days": (second, None), "user": "ann"}, {"second", "fourth"}),
        ({"days": (None, second), "user": "ann"}, {"first", "second"}),
        ({"user": "bob"}, {"third"}),
    ]
    for number, (chosen, names) in enumerate(choices):
        tasks, _ = export(lake, tmp_path / str(number), **chosen)
        assert {task.name for task in tasks} == names


SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "1,u,2,16,64,Other,COMPLETED,2023-03-01 00:00:00+08:00,2023-03-01 00:01:00+08:00,2023-03-01 01:01:00+08:00,1,1,1\n"
    "2,u,1,0,8,Other,CANCELLED,2023-03-01 00:00:00+08:00,,2023-03-01 00:05:00+08:00,1,1,1\n"
    "3,u,1,8,32,Other,RUNNING,2023-03-01 00:00:00+08:00,2023-03-01 00:00:30+08:00,,1,1,1\n"
)


@pytest.mark.slow
def test_a_job_on_several_nodes_is_split_and_that_is_said(tmp_path: Path) -> None:
    tasks, summary = export(built_from(tmp_path, {"trace_seren.csv": SEREN}), tmp_path, "seren")
    assert [(task.name, task.cpu_count, task.gpu_count, task.gpu_capacity) for task in tasks] == [
        ("1/0", 32, 8, 8000.0),
        ("1/1", 32, 8, 8000.0),
    ]
    assert {(task.submitted_at, task.duration) for task in tasks} == {(1_677_600_000_000, 3_600_000)}
    assert summary["split"] == {
        "tasks that are one node's or one worker's part of a job": 2,
        "jobs of several parts: nothing makes these run at the same time": 1,
    }
    assert summary["left_out"] == {"still running": 1}
    assert [(host["count"], host["gpus"], host["gpu_type"]) for host in summary["hosts"]] == [(286, 8, "A100")]


SACCT = (
    "JobID|Cluster|User|State|Submit|Start|End|NNodes|AllocCPUS|ReqMem|AllocTRES|NodeList|\n"
    "1|lab|ann|COMPLETED|2024-05-01T00:00:00|2024-05-01T01:00:00|2024-05-01T02:00:00|2|16|64G|"
    "billing=16,cpu=16,gres/gpu=8,mem=64G,node=2|n[1-2]|\n"
    "2|lab|bob|NODE_FAIL|2024-05-01T00:30:00|2024-05-01T01:00:00|2024-05-01T01:30:00|1|4|8G|"
    "billing=4,cpu=4,gres/gpu=1,mem=8G,node=1|n1|\n"
)
OUTAGE = "cluster,machine,started_at,ended_at,reason\nlab,n1,2024-05-01 01:30:00+00:00,2024-05-01 01:45:00+00:00,fan\n"
MACHINES = "cluster,machine,gpu_type,gpus,cores,memory_gib\nlab,n1,H100,8,96,512\nlab,n2,H100,8,96,512\n"


@pytest.mark.slow
def test_nodes_of_slurm_and_their_outages_make_a_topology_and_a_failure_trace(tmp_path: Path) -> None:
    files = {"sacct.txt": SACCT, "machines.csv": MACHINES, "outages.csv": OUTAGE}
    tasks, summary = export(built_from(tmp_path, files), tmp_path)
    assert [(task.name, task.cpu_count, task.gpu_count) for task in tasks] == [
        ("1/0", 8, 4),
        ("1/1", 8, 4),
        ("2", 4, 1),
    ]
    assert [(host["count"], host["cores"], host["gpus"]) for host in summary["hosts"]] == [(2, 96, 8)]
    assert pq.read_table(tmp_path / "out" / "failures.parquet").to_pylist() == [
        {"failure_interval": 5_400_000, "failure_duration": 900_000, "failure_intensity": 0.5}
    ]


@pytest.mark.slow
def test_a_node_that_took_a_job_with_it_was_down_for_a_guess(tmp_path: Path) -> None:
    _, summary = export(built_from(tmp_path, {"sacct.txt": SACCT}), tmp_path)
    assert summary["failures"] == 1
    assert summary["guessed"]["outages of an hour: an attempt was lost to its machine"] == 1
    assert summary["guessed"]["hosts that no inventory lists: with as many GPUs as were held at once"] == 2


@pytest.mark.slow
def test_nodes_without_gpus_that_no_inventory_lists_are_hosts_too(tmp_path: Path) -> None:
    plain = SACCT.replace("gres/gpu=8,", "").replace("gres/gpu=1,", "")
    tasks, summary = export(built_from(tmp_path, {"sacct.txt": plain}), tmp_path)
    assert {task.gpu_count for task in tasks} == {0}
    assert [(host["count"], host["cores"], host["gpus"]) for host in summary["hosts"]] == [(2, 8, 0)]
    assert summary["guessed"]["hosts that no inventory lists: as many as jobs ran on"] == 2


def test_all_of_a_generated_trace_goes_out_in_small_parts(
    shared_lake: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulake.replay.from_lake.ROWS", 500)
    tasks, summary = export(Lake(shared_lake), tmp_path)
    assert summary["read"] == summary["tasks"] + sum(summary["left_out"].values())
    assert summary["tasks"] > 2000
    assert [task.id for task in sorted(tasks, key=lambda task: task.id)] == list(range(len(tasks)))
    hosts = opendc_loader.hosts(opendc_loader.read_json(tmp_path / "out" / "sdk" / "topology.json"))
    lost = summary["remarks"].get("tasks that fit no host of the topology", 0)
    assert sum(not any(opendc_loader.fits(task, host) for host in hosts) for task in tasks) == lost


def test_a_cluster_that_is_not_there_gets_the_nearest(shared_lake: Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cluster or workload named 'sinth'") as caught:
        export(Lake(shared_lake), tmp_path, "sinth")
    assert caught.value.hint == "did you mean 'synth'?"
    with pytest.raises(UsageError, match="the lake has 0 clusters"):
        export(Lake(Config(lake=tmp_path / "empty")).create(), tmp_path)


def test_power_is_that_of_the_settings(shared_lake: Config) -> None:
    with Lake(shared_lake).open().reading() as reader:
        hosts = from_lake(reader, Selection("synth"), shared_lake.gpu_types).hosts
    assert {host.gpu_type: host.gpu_busy_watts for host in hosts if host.gpu_type == "T4"} == {"T4": 70}
