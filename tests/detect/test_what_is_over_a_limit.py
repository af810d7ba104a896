"""What watches with absolute limits say, and what they leave alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from detect.scenes import BEGIN, HOUR, SCENES, lake_of
from gpulake.core.types import Finding
from gpulake.detect.watchlist import run_watches

Tables = dict[str, list[dict[str, Any]]]


def said(tables: Tables) -> list[Finding]:
    with lake_of(tables) as read:
        return run_watches(read)


@pytest.mark.parametrize(
    ("watch", "headline"),
    [
        ("hot_nodes", "GPUs of node n7 were at 93 °C since 2026-01-06 16:00 UTC"),
        (
            "throttled_nodes",
            "GPUs of 4 nodes (n70, n71, n72 and 1 more) were throttled for power since 2026-01-06 16:00 UTC",
        ),
        (
            "lost_nodes",
            "the scheduler reported machine n7 out of service from 2026-01-06 06:00 UTC to 2026-01-06 14:00 UTC",
        ),
        ("bad_links", "InfiniBand port n7 mlx5_0 counted 540 symbol errors in an hour, since 2026-01-06 16:00 UTC"),
        ("stuck_queue", "nothing starts on n7 since 2026-01-07 21:00 UTC, and jobs wait for 4 GPUs"),
        ("empty_jobs", "user n7 ran 140 jobs within a day that held GPUs and used none"),
    ],
)
def test_what_is_over_its_limit_is_said_with_its_value_and_time(watch: str, headline: str) -> None:
    assert [one.headline for one in said(SCENES[watch]("n7"))] == [headline]


def test_three_short_outages_within_a_day_are_a_node_that_flaps() -> None:
    tables = SCENES["lost_nodes"]("n7")
    begins = [BEGIN + timedelta(hours=hour) for hour in (30, 33, 37)]
    tables["silver_outages"] = [
        {"cluster_id": "c", "machine_key": 1, "basis": "reported", "started_at": at, "ended_at": at + HOUR / 6}
        for at in begins
    ]
    (found,) = said(tables)
    assert (found.kind, found.headline, found.value, found.unit) == (
        "node_down",
        "machine n7 went out of service 3 times within a day",
        3.0,
        "outages",
    )


def _throttled(**changed: Any) -> Tables:
    """The four nodes of the example, in their last ten hours, with this instead of the power brake."""
    tables = SCENES["throttled_nodes"]("n7")
    return {
        "silver_gpu_hours": [
            row | {"braked_hours": 0.0, "loaded_clock_hertz": 1.9e9} | (changed if row["braked_hours"] else {})
            for row in tables["silver_gpu_hours"]
        ]
    }


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({"loaded_clock_hertz": 1.0e9}, "far below their usual clocks"),
        ({"thermal_hours": 0.3}, "throttled for heat"),
        ({"thermal_hours": 0.3, "braked_hours": 0.3, "loaded_clock_hertz": 1.0e9}, "throttled for "),
    ],
)
def test_a_row_of_nodes_is_one_finding_for_each_reason(changed: dict[str, Any], state: str) -> None:
    found = said(_throttled(**changed))
    kinds = {(one.kind, one.subject) for one in found}
    assert kinds == {("throttled_node", "n70, n71, n72 and 1 more")}
    assert all(state in one.headline for one in found)


def test_nodes_that_are_throttled_at_other_times_are_findings_of_their_own() -> None:
    tables = SCENES["throttled_nodes"]("n7")
    early = {"n70", "n71"}
    for row in tables["silver_gpu_hours"]:
        hour = (row["started_at"] - BEGIN) / HOUR
        if row["node_id"] in early:
            row |= {"braked_hours": 1.0 if 10 <= hour < 20 else 0.0, "loaded_clock_hertz": 1.9e9}
    assert [one.subject for one in said(tables)] == ["n70, n71", "n72, n73"]


def test_a_row_of_hot_nodes_is_one_finding() -> None:
    rows = [row for node in ("a", "b", "d") for row in SCENES["hot_nodes"](node)["silver_gpu_hours"]]
    assert [one.headline for one in said({"silver_gpu_hours": rows})] == [
        "GPUs of 3 nodes (a, b, d) were at 93 °C since 2026-01-06 16:00 UTC"
    ]


def _only(watch: str, table: str, **changed: Any) -> Tables:
    tables = SCENES[watch]("n7")
    return tables | {table: [row | changed for row in tables[table]]}


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(_only("hot_nodes", "silver_gpu_hours", mean_celsius=84.0), id="warm at work"),
        pytest.param(_throttled(loaded_clock_hertz=1.4e9), id="at the power cap"),
        pytest.param(_throttled(braked_hours=0.2), id="throttled now and then"),
        pytest.param(_only("lost_nodes", "silver_machine_states", condition="drained"), id="drained by a person"),
        pytest.param(_only("lost_nodes", "silver_outages", basis="silent"), id="no report"),
        pytest.param(_only("bad_links", "silver_link_samples", symbol_errors_total=7), id="old errors"),
        pytest.param(_only("bad_links", "silver_link_samples", symbol_errors_total=7, is_up=False), id="never up"),
        pytest.param(_only("stuck_queue", "gold_machine_hours", unallocated_gpu_hours=7.0), id="GPUs are in use"),
        pytest.param(_only("stuck_queue", "silver_tasks", status="cancelled"), id="nobody waits"),
        pytest.param(_only("stuck_queue", "silver_tasks", requested_gpus=12.0), id="too large for what is free"),
        pytest.param(_only("stuck_queue", "silver_jobs", wait_reason="Dependency"), id="held back by another job"),
        pytest.param(_only("empty_jobs", "silver_holdings", bucket="used"), id="jobs that work"),
    ],
)
def test_what_is_within_its_limits_is_left_alone(tables: Tables) -> None:
    assert said(tables) == []


def test_a_partition_may_be_stuck_while_another_is_not() -> None:
    tables = SCENES["stuck_queue"]("n7")
    waiting = {task["job_key"] for task in tables["silver_tasks"] if task["status"] == "waiting"}
    for job in tables["silver_jobs"]:
        job["partition_id"] = "gpu" if job["job_key"] % 2 or job["job_key"] in waiting else "short"
    begin = BEGIN + 67 * HOUR
    ran = {"cluster_id": "n7", "machine_key": 1, "gpus": 1.0}
    for place in range(10):
        job = {"cluster_id": "n7", "job_key": 1_000 + place}
        tables["silver_jobs"].append(job | {"partition_id": "short"})
        tables["silver_instances"].append(ran | job | {"started_at": begin + place * HOUR / 2})
    (found,) = said(tables)
    assert (found.subject, found.headline) == (
        "n7 gpu",
        "nothing of partition gpu starts on n7 since 2026-01-07 21:00 UTC, and jobs wait for 4 GPUs",
    )


def test_jobs_that_fit_on_no_machine_are_not_stuck() -> None:
    """Half of the GPUs are free, four of each machine; jobs of eight wait for a whole one."""
    tables = SCENES["stuck_queue"]("n7")
    for task in tables["silver_tasks"]:
        task["requested_gpus"] = 8.0
    tables["gold_machine_hours"] = [
        row | {"machine_key": key, "capacity_gpu_hours": 8.0, "unallocated_gpu_hours": 4.0}
        for row in tables["gold_machine_hours"]
        for key in range(8)
    ]
    for place, attempt in enumerate(tables["silver_instances"]):
        attempt["machine_key"] = place % 8
    assert said(tables) == []
    for row in tables["gold_machine_hours"]:
        row["unallocated_gpu_hours"] = 8.0 if row["machine_key"] < 4 else 0.0
    assert [one.kind for one in said(tables)] == ["stuck_queue"]
