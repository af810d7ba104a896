"""--json of sacct, squeue and sinfo, as data_parser v0.0.37 to v0.0.43 write it, and more than fits in memory."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.lines import LARGEST_DOCUMENT_BYTES
from gpulake.core.progress import silent
from gpulake.core.types import BadRow
from gpulake.formats.slurm_jobs import json_jobs
from gpulake.lake import Lake
from gpulake.land.landing import land

BEGIN = 1_794_990_511  # 2026-11-18 08:28:31
META: dict[str, Any] = {
    "plugin": {"type": "openapi/v0.0.38"},
    "Slurm": {"version": {"major": 22}, "release": "22.05.8"},
}
LATER_META = {"plugin": {"data_parser": "data_parser/v0.0.41"}, "slurm": {"cluster": "tiger", "release": "24.05.3"}}


def some(value: float) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


NONE = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": False, "infinite": True, "number": 0}
TRES = "cpu=2,mem=9000M,node=2,billing=1,gres/gpu=3"
HELD = ["gpu:a100:1(IDX:3)", "gpu:a100:2(IDX:0,2)"]
# As squeue writes a job up to 22.05, in 23.02, and from 23.11 on.
SQUEUE: dict[str, dict[str, Any]] = {
    "v0.0.38": {
        "array_job_id": 0,
        "array_task_id": None,
        "job_id": 3,
        "job_state": "RUNNING",
        "exit_code": 256,
        "time_limit": None,
        "node_count": 2,
        "start_time": BEGIN,
        "end_time": BEGIN + 31_536_000,
    },
    "v0.0.39": {
        "array_job_id": some(0),
        "array_task_id": NONE,
        "job_id": 3,
        "job_state": "RUNNING",
        "exit_code": some(256),
        "time_limit": INFINITE,
        "node_count": some(2),
        "start_time": BEGIN,
        "end_time": BEGIN + 31_536_000,
    },
    "v0.0.41": {
        "array_job_id": some(0),
        "array_task_id": NONE,
        "job_id": 3,
        "job_state": ["RUNNING", "CONFIGURING"],
        "exit_code": {"status": ["ERROR"], "return_code": some(1), "signal": {"id": NONE, "name": ""}},
        "time_limit": INFINITE,
        "node_count": some(2),
        "start_time": some(BEGIN),
        "end_time": some(BEGIN + 31_536_000),
    },
}
SAME: dict[str, Any] = {
    "nodes": "g[1-2]",
    "tres_req_str": TRES,
    "tres_alloc_str": TRES,
    "gres_detail": HELD,
    "state_reason": "None",
}


def written(path: Path, text: object, indent: int | None = 2) -> Path:
    path.write_text(json.dumps(text, indent=indent))
    return path


def said_by(path: Path) -> list[dict[str, str]]:
    return [found[1] for found in json_jobs(path) if not isinstance(found, BadRow)]


def landed(lake: Lake, clock: FrozenClock, path: Path) -> str:
    with lake.writing():
        (landing,) = land(lake, [path], clock, silent).landings
    assert landing.rows_quarantined == 0
    return landing.table


@pytest.mark.parametrize("version", SQUEUE)
def test_every_version_of_squeue_says_the_same_of_a_job(version: str, tmp_path: Path) -> None:
    path = written(tmp_path / "squeue.json", {"jobs": [SAME | SQUEUE[version]]})
    (row,) = said_by(path)
    wanted = ("JobID", "State", "Start", "End", "ExitCode", "TimelimitRaw", "NNodes", "gpu_indexes", "Reason")
    assert {name: row[name] for name in wanted} == {
        "JobID": "3",
        "State": "RUNNING",
        "Start": "2026-11-18T08:28:31",
        "End": "",
        "ExitCode": "1:0",
        "TimelimitRaw": "",
        "NNodes": "2",
        "gpu_indexes": "g1/3,g2/0,g2/2",
        "Reason": "",
    }


@pytest.mark.parametrize(
    ("step", "name"), [(0, "0"), ("26.batch", "batch"), ({"job_id": 26, "step_id": "extern"}, "extern")]
)
def test_every_version_of_sacct_names_its_steps(step: object, name: str, tmp_path: Path) -> None:
    usage = [{"type": "mem", "name": "", "count": 4096}, {"type": "gres", "name": "gpuutil", "count": 90}]
    job = {
        "job_id": 26,
        "association": {"user": "ann"},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "time": {"start": BEGIN, "end": some(BEGIN + 60), "elapsed": 60, "limit": some(30), "submission": BEGIN - 5},
        "tres": {
            "allocated": [{"type": "gres", "name": "gpu", "count": 2}, {"type": "mem", "name": "", "count": 62000}]
        },
        "steps": [
            {"step": {"id": step, "name": "x"}, "time": {"start": BEGIN}, "tres": {"requested": {"average": usage}}}
        ],
    }
    found, part = said_by(written(tmp_path / "sacct.json", {"jobs": [job]}))
    assert (found["User"], found["State"], found["TimelimitRaw"], found["ExitCode"]) == (
        "ann",
        "COMPLETED",
        "30",
        "0:0",
    )
    assert (found["AllocTRES"], found["ElapsedRaw"], found["End"]) == (
        "gres/gpu=2,mem=62000M",
        "60",
        "2026-11-18T08:29:31",
    )
    assert (part["JobID"], part["TRESUsageInAve"]) == (f"26.{name}", "mem=4096,gres/gpuutil=90")


def test_members_are_recognised_in_either_order(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    # Up to 23.02 the version comes first, with the whole command line; from 23.11 on the jobs do.
    job = {"account": "a", **{f"field_{number}": some(number) for number in range(9)}, **SAME, **SQUEUE["v0.0.41"]}
    command = {"command": ["squeue", *(f"--option-{number}" for number in range(30)), "--json"]}
    texts: list[dict[str, object]] = [{"meta": META | command, "jobs": [job]}, {"jobs": [job], "meta": LATER_META}]
    for number, text in enumerate(texts):
        assert landed(lake, clock, written(tmp_path / f"{number}.json", text)) == "bronze_slurm_jobs"
    node = {"name": "g1", "state": ["IDLE"], "gres": "gpu:a100:4", **{f"field_{n}": some(n) for n in range(9)}}
    assert (
        landed(lake, clock, written(tmp_path / "n.json", {"nodes": [node], "meta": LATER_META})) == "bronze_slurm_nodes"
    )
    assert rows_of(lake, "SELECT cluster, gpus FROM bronze_slurm_nodes") == [{"cluster": "tiger", "gpus": 4.0}]


def test_partitions_and_reservations_are_read(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    partition = {
        "name": "gpu",
        "node_sets": "",
        "nodes": {"allowed_allocation": "", "configured": "g[1-2]", "total": 2},
        "maximums": {"time": some(1440), "over_time_limit": NONE},
        "defaults": {"time": INFINITE},
        "partition": {"state": ["UP"]},
        "tres": {"configured": "cpu=8,gres/gpu=4"},
        "accounts": {"allowed": "bio", "deny": ""},
    }
    reservation = {
        "name": "fix",
        "node_list": "g1",
        "flags": ["MAINT", "SPEC_NODES"],
        "start_time": some(BEGIN),
        "end_time": some(BEGIN + 60),
        "users": "root,ann",
        "core_specializations": [],
    }
    landed(lake, clock, written(tmp_path / "p.json", {"partitions": [partition], "meta": LATER_META}))
    landed(lake, clock, written(tmp_path / "r.json", {"reservations": [reservation], "meta": LATER_META}))
    config = "Configuration data as of 2026-11-18T08:28:32\nClusterName = tiger\nStoragePass = x\nMinJobAge = 300 sec\n"
    (tmp_path / "config.txt").write_text(config)
    landed(lake, clock, tmp_path / "config.txt")
    columns = 'cluster, "PartitionName", "State", node_names, gpus, "MaxTime", "DefaultTime", "AllowAccounts"'
    (row,) = rows_of(lake, f"SELECT {columns} FROM bronze_slurm_partitions")
    assert tuple(row.values()) == ("tiger", "gpu", "UP", "g1,g2", 4.0, "1440", "UNLIMITED", "bio")
    (row,) = rows_of(
        lake, 'SELECT "ReservationName", node_names, "Flags", "Users", "StartTime" FROM bronze_slurm_reservations'
    )
    assert tuple(map(str, row.values())) == ("fix", "g1", "MAINT,SPEC_NODES", "root,ann", "2026-11-18 08:28:31")
    rows = rows_of(lake, "SELECT name, value FROM bronze_slurm_config ORDER BY name")
    assert rows == [{"name": "ClusterName", "value": "tiger"}, {"name": "MinJobAge", "value": "300 sec"}]


@pytest.mark.slow
def test_a_day_of_a_large_site_lands(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path, number = tmp_path / "sacct.json", count(1)
    with path.open("w") as file:
        file.write('{"jobs": [\n')
        while file.tell() <= LARGEST_DOCUMENT_BYTES:
            job = SAME | SQUEUE["v0.0.41"] | {"job_id": next(number), "command": "x" * 4096}
            file.write(f"{json.dumps(job)},\n")
        file.write(json.dumps(SAME | SQUEUE["v0.0.41"] | {"job_id": next(number)}) + '], "meta": {}}')
    assert landed(lake, clock, path) == "bronze_slurm_jobs"
    assert rows_of(lake, "SELECT count(DISTINCT job_id) AS n FROM bronze_slurm_jobs") == [{"n": next(number) - 1}]


def test_half_an_answer_lands_nothing(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = written(tmp_path / "squeue.json", {"jobs": [SAME | SQUEUE["v0.0.38"]] * 2, "meta": META})
    path.write_text(path.read_text()[:-200])
    with pytest.raises(InputError, match="cut short"):
        landed(lake, clock, path)
    assert rows_of(lake, "SELECT count(*) AS n FROM bronze_slurm_jobs") == [{"n": 0}]
