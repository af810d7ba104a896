"""A file name that comes again with other content adds its rows; replacing is asked for, or a matter of the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import count_of, rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.types import Landing
from gpulake.flow import Flow
from gpulake.lake.deep import inspect
from gpulake.lake.in_force import sources

WriteCsv = Callable[..., Path]
A, B, C, D = ([f"{job},i,u,Failed,1.0,2.0"] for job in "abcd")
LIVE = "SELECT version FROM landings WHERE is_live ORDER BY version"
SNAPSHOT = """timestamp, index, uuid, utilization.gpu [%]
2026/03/01 10:{minute:02}:00.000, 0, GPU-1, {minute} %
"""
MACHINES = "cluster,machine,gpu_type,gpus,cores,memory_gib\n"


def landed(config: Config, path: Path, minute: int = 0, is_replacing: bool = False) -> Landing:
    clock = FrozenClock(datetime(2026, 3, 1, 10, tzinfo=UTC) + timedelta(minutes=minute))
    (landing,) = Flow(config, clock=clock).land([path], is_replacing).landings
    return landing


def versions(config: Config) -> list[object]:
    return [row["version"] for row in rows_of(Flow(config).lake, LIVE)]


def jobs(config: Config) -> list[object]:
    return [row["job_name"] for row in rows_of(Flow(config).lake, "FROM bronze_job_events ORDER BY job_name")]


def test_snapshots_named_after_the_host_add_up(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "gpu-017.csv"
    for minute in (0, 1, 1, 2):
        path.write_text(SNAPSHOT.format(minute=minute))
        landed(config, path, minute)
    lake = Flow(config).lake
    found = rows_of(lake, "SELECT utilization_gpu FROM bronze_nvidia_smi ORDER BY timestamp")
    assert [str(row["utilization_gpu"]) for row in found] == ["0 %", "1 %", "2 %"]
    assert versions(config) == [1, 2, 3]
    Flow(config).build(["silver_gpu_samples"])
    assert rows_of(lake, "SELECT DISTINCT node_id FROM silver_gpu_samples") == [{"node_id": "gpu-017"}]
    assert count_of(lake, "silver_gpu_samples") == 3


def test_one_more_file_of_the_name_extends_the_build(config: Config, write_csv: WriteCsv) -> None:
    flow = Flow(config)
    whole = [f"{number:04},i,u,Terminated,{number}.0,{number + 9}.0" for number in range(50)]
    flow.land([write_csv("pai_job_table", whole)])
    flow.build()
    flow.land([write_csv("pai_job_table", A)])
    assert flow.build().touched is not None
    assert count_of(flow.lake, "silver_jobs") == 51


def test_a_file_that_grew_takes_its_own_place_and_no_other(config: Config, write_csv: WriteCsv) -> None:
    landed(config, write_csv("pai_job_table", D))
    landed(config, write_csv("pai_job_table", A), 1)
    landing = landed(config, write_csv("pai_job_table", [*A, *B]), 2)
    assert landing.replaces == (2,)
    assert (versions(config), jobs(config)) == ([1, 3], ["a", "b", "d"])


def test_replacing_is_asked_for_and_can_be_taken_back(config: Config, write_csv: WriteCsv) -> None:
    for minute, lines in enumerate((A, B)):
        landed(config, write_csv("pai_job_table", lines), minute)
    landing = landed(config, path := write_csv("pai_job_table", C), 2, is_replacing=True)
    assert (landing.replaces, versions(config), jobs(config)) == ((1, 2), [3], ["c"])
    (undone,) = Flow(config).undo([str(path)])
    assert [held.version for held in undone.held] == [1, 2]
    assert (versions(config), jobs(config)) == ([1, 2], ["a", "b"])


def test_replacing_by_one_of_several_contents_leaves_that_one(config: Config, write_csv: WriteCsv) -> None:
    for minute, lines in enumerate((A, B)):
        landed(config, write_csv("pai_job_table", lines), minute)
    landed(config, path := write_csv("pai_job_table", A), 2, is_replacing=True)
    assert (versions(config), jobs(config)) == ([3], ["a"])
    Flow(config).undo([str(path)])
    assert (versions(config), jobs(config)) == ([1, 2], ["a", "b"])


def test_an_undo_by_path_takes_back_the_last_and_by_id_any(config: Config, write_csv: WriteCsv) -> None:
    first = landed(config, write_csv("pai_job_table", A))
    for minute, lines in enumerate((B, C), start=1):
        landed(config, path := write_csv("pai_job_table", lines), minute)
    Flow(config).undo([str(path)])
    assert jobs(config) == ["a", "b"]
    Flow(config).undo([first.landing_id])
    assert jobs(config) == ["b"]


def test_a_build_without_a_path_is_without_all_that_landed_from_it(config: Config, write_csv: WriteCsv) -> None:
    flow = Flow(config)
    flow.land([write_csv("pai_job_table", D, folder="other")])
    for lines in (A, B):
        flow.land([path := write_csv("pai_job_table", lines)])
    flow.build(["silver_jobs"], without=[str(path)])
    assert rows_of(flow.lake, "SELECT job_id FROM silver_jobs") == [{"job_id": "d"}]


def test_an_inventory_lists_all_there_is(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    for rows in ("c,m1,h100,8,,\nc,m2,h100,8,,\n", "c,m1,h100,4,,\n"):
        path.write_text(MACHINES + rows)
        landed(config, path)
    found = rows_of(Flow(config).lake, "SELECT machine, gpus FROM bronze_machines")
    assert found == [{"machine": "m1", "gpus": 4.0}]


@pytest.mark.parametrize(
    ("first", "then", "rows"),
    [
        ("[  10.5] eth0 up\n", "[  11.5] eth1 up\n", 1),
        ("2026-03-01T10:00:00,000000+00:00 eth0 up\n", "2026-03-02T10:00:00,000000+00:00 eth1 up\n", 2),
    ],
    ids=["times since boot", "times of day"],
)
def test_a_kernel_log_without_dates_replaces_the_one_before(
    config: Config, tmp_path: Path, first: str, then: str, rows: int
) -> None:
    path = tmp_path / "node.dmesg.log"
    for text in (first, then):
        path.write_text(text)
        landed(config, path)
    assert count_of(Flow(config).lake, "bronze_kernel_log") == rows


def test_a_damaged_landing_of_several_costs_only_its_own_rows(config: Config, write_csv: WriteCsv) -> None:
    one, two, three = (
        landed(config, write_csv("pai_job_table", lines), minute) for minute, lines in enumerate((A, B, C))
    )
    lake = Flow(config).lake
    for landing in (one, three):
        (lake.bronze.folder / "bronze_job_events" / landing.file).write_bytes(b"torn")
    repairs, _ = Flow(config).repair(is_dry_run=True)
    assert [repair.status for repair in repairs if repair.path.name == three.file] == ["planned"]
    assert [repair.status for repair in repairs if repair.path.name == one.file] == ["needs --drop"]
    Flow(config).repair(may_drop=True)
    assert (jobs(config), inspect(lake)) == (["b", "c"], [])
    assert two.file in {landing.file for landing in lake.held_landings()}


def test_a_lost_commit_of_an_added_file_is_found_and_its_rows_come_back(config: Config, write_csv: WriteCsv) -> None:
    for minute, lines in enumerate((A, B, C)):
        landed(config, write_csv("pai_job_table", lines), minute)
    lake = Flow(config).lake
    (lake.bronze.folder / "bronze_job_events" / "_delta_log" / f"{1:020}.json").unlink()
    Flow(config).repair()
    assert (jobs(config), inspect(lake)) == (["a", "b", "c"], [])


def test_a_renewed_log_does_not_bring_back_what_was_replaced(config: Config, write_csv: WriteCsv) -> None:
    landed(config, write_csv("pai_job_table", A))
    landed(config, write_csv("pai_job_table", B), 1, is_replacing=True)
    landed(config, write_csv("pai_job_table", C), 2)
    lake = Flow(config).lake
    (lake.bronze.folder / "bronze_job_events" / "_delta_log" / f"{2:020}.json").write_text("torn{")
    Flow(config).repair()
    assert (jobs(config), inspect(lake)) == (["b", "c"], [])


def test_logs_of_earlier_versions_say_that_each_landing_replaced_all_before() -> None:
    def entry(version: int, file: str) -> Landing:
        return Landing("s", "t", file, 1, 1, 1, 0, version, datetime(2026, 1, 1, tzinfo=UTC), file)

    older = [entry(1, "a"), entry(2, "b")]
    assert [one.version for one in sources(older)["s"].held] == [2]
    assert sources([*older, entry(3, "")])["s"].held == ()


def test_the_history_says_what_a_landing_replaced(config: Config, write_csv: WriteCsv) -> None:
    landed(config, write_csv("pai_job_table", A))
    landed(config, write_csv("pai_job_table", B), 1, is_replacing=True)
    log = Flow(config).lake.bronze.folder / "bronze_job_events" / "_delta_log" / f"{1:020}.json"
    said = [json.loads(line) for line in log.read_text().splitlines()]
    (info,) = (action["commitInfo"] for action in said if "commitInfo" in action)
    assert json.loads(info["gpulake"])["replaces"] == [1]
