"""How many GPUs a job of Slurm used: its steps by their own time and GPUs, or the summary of jobstats node by node."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from conftest import built_from, rows_of
from gpulake.lake import Lake
from model.sacct import CLUSTERS, dump, gpus, jobstats, times

pytestmark = pytest.mark.slow

DAY = "2024-05-01T"


def step(name: str, begin: str, end: str, count: int, *, ave: str = "", **others: str) -> dict[str, str]:
    """A row of a job's step, or of the job itself if it has no dot; it ran from `begin` to `end` of one day."""
    row = {"JobID": name, "State": "COMPLETED", "AllocTRES": gpus(count), "NodeList": f"n{name.partition('.')[0]}"}
    row |= times(f"{DAY}00:00:00", f"{DAY}{begin}", f"{DAY}{end}" if end else "")
    return {**row, "TRESUsageInAve": f"cpu=00:01:00,gres/gpuutil={ave}" if ave else "", **others}


def used(lake: Lake) -> dict[str, list[object]]:
    """The GPUs used by each job, node by node; None where nobody measured."""
    rows = rows_of(
        lake,
        "SELECT job_id, list(round(used_gpus, 9) ORDER BY i.instance_key, attempt) AS used FROM silver_jobs "
        "JOIN silver_instances i USING (job_key) LEFT JOIN silver_instance_usage USING (worker_key) GROUP BY 1",
    )
    return {str(row["job_id"]): row["used"] for row in rows}  # type: ignore[misc]


def on_each_node(folder: Path, *rows: dict[str, str]) -> list[tuple[object, ...]]:
    """Machine, GPUs held, GPUs used."""
    nodes = "".join(f"tiger,gpu0{number},H100,8,,\n" for number in range(1, 8))
    files = {"sacct.txt": dump(*rows), "machines.csv": f"cluster,machine,gpu_type,gpus,cores,memory_gib\n{nodes}"}
    found = rows_of(
        built_from(folder, files, clusters=CLUSTERS),
        "SELECT machine_id, i.gpus, round(used_gpus, 9) FROM silver_instances i "
        "JOIN silver_machines USING (machine_key) LEFT JOIN silver_instance_usage USING (worker_key) ORDER BY 1",
    )
    return [tuple(row.values()) for row in found]


ONE_BUSY_MINUTE = [
    step("1", "00:00:00", "10:00:00", 1),
    step("1.interactive", "00:00:00", "10:00:00", 1, ave="0"),
    step("1.extern", "00:00:00", "10:00:00", 1, ave="0"),
    step("1.0", "04:00:00", "04:01:00", 1, ave="90"),
]
# Slurm measures the processes of each step apart: what runs side by side adds up.
SIDE_BY_SIDE = [
    step("2", "00:00:00", "10:00:00", 4),
    step("2.0", "00:00:00", "05:00:00", 2, ave="50", NTasks="2"),
    step("2.1", "00:00:00", "10:00:00", 2, ave="100", NTasks="2"),
    step("2.2", "06:00:00", "07:00:00", 2, ave="25", NTasks="2"),
]
# Ten minutes in which both say that the one GPU was busy are ten minutes, not twenty.
MORE_THAN_THERE_IS = [
    step("3", "00:00:00", "01:00:00", 1),
    step("3.batch", "00:00:00", "00:10:00", 1, ave="100"),
    step("3.0", "00:00:00", "00:20:00", 1, ave="60"),
]
ONE_TASK_ON_FOUR_GPUS = [
    step("4", "00:00:00", "01:00:00", 4),
    step("4.0", "00:00:00", "01:00:00", 4, ave="396", NTasks="1", TRESUsageInTot="gres/gpumem=1,gres/gpuutil=396"),
]
# 50 percent over all GPUs of its one task: half a GPU, not half of four.
ONE_TASK_ON_ONE_OF_FOUR = [
    step("5", "00:00:00", "01:00:00", 4),
    step("5.batch", "00:00:00", "01:00:00", 4, ave="50", NTasks="1"),
]
TASKS_NOT_TOLD = [
    step("6", "00:00:00", "01:00:00", 4),
    step("6.0", "00:00:00", "00:30:00", 2, ave="50"),
]
NOT_MEASURED = [step("7", "00:00:00", "01:00:00", 2), step("7.0", "00:00:00", "01:00:00", 2)]
STILL_RUNNING = [
    step("8", "00:00:00", "", 1, State="RUNNING"),
    step("8.batch", "00:00:00", "", 1, State="RUNNING"),
    step("8.0", "00:00:00", "00:10:00", 1, ave="90"),
]
ENDS_AFTER_ITS_JOB = [
    step("9", "00:00:00", "01:00:00", 1, State="CANCELLED by 7"),
    step("9.0", "00:30:00", "01:30:00", 1, ave="80", State="CANCELLED"),
]
TOLD_TWICE = [
    step("10", "00:00:00", "01:00:00", 4),
    step("10.0", "00:00:00", "00:30:00", 1, ave="50"),
]
IDLE = [step("11", "00:00:00", "01:00:00", 1), step("11.batch", "00:00:00", "01:00:00", 1, ave="0")]


def test_each_step_counts_for_its_own_time_and_gpus(tmp_path: Path) -> None:
    cases = [ONE_BUSY_MINUTE, SIDE_BY_SIDE, MORE_THAN_THERE_IS, ONE_TASK_ON_FOUR_GPUS, ONE_TASK_ON_ONE_OF_FOUR]
    cases += [TASKS_NOT_TOLD, NOT_MEASURED, STILL_RUNNING, ENDS_AFTER_ITS_JOB, TOLD_TWICE, IDLE]
    again = [{**TOLD_TWICE[1], "JobName": "x"}, {**TOLD_TWICE[1], "End": "", "State": "RUNNING", "TRESUsageInAve": ""}]
    files = {"sacct.txt": dump(*(row for rows in cases for row in rows)), "again.txt": dump(TOLD_TWICE[0], *again)}
    lake = built_from(tmp_path, files, clusters=CLUSTERS)
    assert used(lake) == {
        "1": [pytest.approx(0.015 / 10)],
        "2": [pytest.approx((2 * 0.5 * 5 + 2 * 10 + 2 * 0.25) / 10)],
        "3": [pytest.approx((10 + 10 * 0.6) / 60)],
        "4": [3.96],
        "5": [0.5],
        "6": [0.5],
        "7": [None],
        "8": [None],
        "9": [pytest.approx(0.4)],
        "10": [0.25],
        "11": [0.0],
    }


def test_a_step_counts_on_its_own_nodes_and_a_run_has_its_own_steps(tmp_path: Path) -> None:
    both = {"NodeList": "gpu[01-02]", "NNodes": "2"}
    first = step("20", "00:00:00", "01:00:00", 4, **both)
    uneven = step("20.0", "00:00:00", "01:00:00", 2, ave="100", NTasks="2", NodeList="gpu02")
    even = step("20.1", "00:00:00", "00:30:00", 4, ave="50", NTasks="4", **both)
    before = step("21", "00:00:00", "01:00:00", 2, NodeList="gpu03", State="REQUEUED")
    after = step("21", "01:00:00", "03:00:00", 2, NodeList="gpu04") | {"Submit": f"{DAY}01:00:00"}
    steps = [
        step("21.batch", "00:00:00", "01:00:00", 2, NodeList="gpu03"),
        step("21.batch", "01:00:00", "03:00:00", 2, NodeList="gpu04", ave="0", NTasks="1"),
        step("21.0", "01:00:00", "02:00:00", 2, NodeList="gpu04", ave="100", NTasks="2"),
    ]
    assert on_each_node(tmp_path, first, uneven, even, before, after, *steps) == [
        ("gpu01", 2.0, 0.5),
        ("gpu02", 2.0, 2.0),  # in half of the hour 2 + 1, of 2
        ("gpu03", 2.0, None),
        ("gpu04", 2.0, 1.0),
    ]


def summary(**nodes: list[float]) -> str:
    """What jobstats leaves of a job with these percentages, GPU by GPU."""
    of_nodes = {
        name: {"cpus": 8, "total_time": 0.0, "used_memory": 0}
        | ({"gpu_utilization": dict(enumerate(percents))} if percents else {})
        for name, percents in nodes.items()
    }
    return jobstats({"nodes": of_nodes, "total_time": 3600, "gpus": sum(map(len, nodes.values()))})


def by_jobstats(**nodes: list[float]) -> float:
    """GPU utilisation as jobstats prints it: the mean over all GPUs."""
    return fmean(percent for of in nodes.values() for percent in of)


def by_reportseff(**nodes: list[float]) -> float:
    """GPUEff as reportseff prints it: the mean over nodes of the mean over their GPUs."""
    return fmean(fmean(of) for of in nodes.values())


def test_gpus_lie_where_jobstats_says(tmp_path: Path) -> None:
    uneven = {"gpu01": [100.0, 20.0, 90.0, 30.0, 60.0, 60.0, 60.0], "gpu02": [60.0]}
    missing = {"gpu03": [100.0, 50.0, 0.0], "gpu04": []}
    both = {"NNodes": "2"}
    found = on_each_node(
        tmp_path,
        step("30", "00:00:00", "01:00:00", 8, NodeList="gpu[01-02]", AdminComment=summary(**uneven), **both),
        step("31", "00:00:00", "01:00:00", 4, NodeList="gpu[03-04]", AdminComment=summary(**missing), **both),
        step("31.0", "00:00:00", "01:00:00", 4, ave="40", NTasks="4", NodeList="gpu[03-04]", **both),
        # Three of its four were measured.
        step("32", "00:00:00", "01:00:00", 4, NodeList="gpu05", AdminComment=summary(gpu05=[90.0] * 3)),
        step("33", "00:00:00", "01:00:00", 3, NodeList="gpu[06-07]", **both),
    )
    assert found == [
        ("gpu01", 7.0, 4.2),
        ("gpu02", 1.0, 0.6),
        ("gpu03", 3.0, 1.5),
        ("gpu04", 1.0, 0.8),
        ("gpu05", 4.0, 2.7),
        ("gpu06", 1.5, None),
        ("gpu07", 1.5, None),
    ]
    assert by_jobstats(**uneven) == by_reportseff(**uneven) == pytest.approx(100 * (4.2 + 0.6) / (7 + 1)) == 60
