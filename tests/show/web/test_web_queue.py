"""The queue's page: every number against plain Python over the rows of silver."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.figures import queue
from gpulake.show.web.questions import questions
from gpulake.show.web.questions.options import MOST_HOURS, SIZES
from gpulake.show.web.viewers import LOCAL
from show.web.asking import Row, ask, figure_of

BOUNDS = (0.25, 0.5, 1)
RANGES: list[dict[str, str]] = [
    {},
    {"from": "1970-02-03", "to": "1970-02-03"},
    {"from": "1970-02-10"},
    {"to": "1970-02-20", "gpu_type": "T4"},
    {"cluster": "tiger"},
]


@pytest.fixture(scope="module")
def tasks(rich: Config) -> list[Row]:
    lake = Lake(rich)
    zones = {row["cluster_id"]: str(row["time_zone"]) for row in rows_of(lake, "FROM silver_clusters")}
    result = rows_of(lake, "FROM silver_tasks WHERE requested_gpus > 0")
    return [{**row, "zone": ZoneInfo(zones[row["cluster_id"]])} for row in result]


def chosen(tasks: list[Row], given: dict[str, str]) -> list[Row]:
    """Those of the range, by the clock of their cluster."""

    def is_in(task: Row) -> bool:
        kind = task["gpu_type"] or "unknown"
        if given.get("cluster", task["cluster_id"]) != task["cluster_id"] or given.get("gpu_type", kind) != kind:
            return False
        if task["launched_at"] is None:
            return False
        day = task["launched_at"].astimezone(task["zone"]).date().isoformat()
        return bool(given.get("from", day) <= day <= given.get("to", day))

    return [task for task in tasks if is_in(task)]


def waits(tasks: list[Row]) -> list[float]:
    result = [task["start_wait_seconds"] for task in tasks]
    return [seconds for seconds in result if seconds is not None and seconds >= 0]


def size_of(task: Row) -> str:
    gpus = round(task["requested_gpus"] * (task["planned_instances"] or 1), 3)
    if gpus == 1:
        return "1"
    return next((SIZES[at] for at, bound in enumerate(BOUNDS) if gpus < bound), SIZES[4 + (gpus >= 8) + (gpus >= 64)])


def percentiles(values: list[float]) -> list[Any]:
    return [pytest.approx(np.percentile(values, percent)) if values else None for percent in (50, 90, 95, 99)]


@pytest.mark.parametrize("given", RANGES, ids=str)
def test_waits_by_type_are_the_percentiles_of_their_tasks(
    client: TestClient, tasks: list[Row], given: dict[str, str]
) -> None:
    by_type: dict[str, list[Row]] = defaultdict(list)
    for task in chosen(tasks, given):
        by_type[task["gpu_type"] or "unknown"].append(task)
    shown = {row["gpu_type"]: row for row in ask(client, "waits_by_gpu_type", **given) if row["tasks"]}
    assert set(shown) == {
        kind for kind, selected in by_type.items() if any(task["status"] != "waiting" for task in selected)
    }
    for kind, row in shown.items():
        selected = waits(by_type[kind])
        assert [row[f"p{percent}_wait_seconds"] for percent in (50, 90, 95, 99)] == percentiles(selected)
        assert row["waits"] == len(selected)
        assert row["tasks"] == sum(task["status"] != "waiting" for task in by_type[kind])


@pytest.mark.parametrize("given", RANGES, ids=str)
def test_waits_by_size_are_the_percentiles_of_their_tasks(
    client: TestClient, tasks: list[Row], given: dict[str, str]
) -> None:
    by_size: dict[str, list[Row]] = defaultdict(list)
    for task in chosen(tasks, given):
        by_size[size_of(task)].append(task)
    for row in ask(client, "waits_by_size", **given):
        selected = waits(by_size[row["requested_gpus"]])
        assert [row[f"p{percent}_wait_seconds"] for percent in (50, 90, 95, 99)] == percentiles(selected)
        assert row["never_started"] == sum(
            task["started_at"] is None and task["ended_at"] is not None for task in by_size[row["requested_gpus"]]
        )


def test_without_filters_the_percentiles_are_those_of_the_mart(client: TestClient, rich: Config) -> None:
    sizes = rows_of(Lake(rich), "SELECT request_size, sum(start_wait_tasks)::INT AS n FROM gold_queue_waits GROUP BY 1")
    shown = {f"{row['size']}: {row['requested_gpus']}": row["waits"] for row in ask(client, "waits_by_size")}
    assert shown == {row["request_size"]: row["n"] for row in sizes}


def test_the_tiles_are_what_the_tasks_make_them(client: TestClient, tasks: list[Row]) -> None:
    selected = chosen(tasks, {})
    median, _, p95, p99 = percentiles(waits(selected))
    waiting = sum(task["status"] == "waiting" for task in tasks)
    shown = {row["label"]: row["value"] for row in ask(client, "queue_facts")}
    assert shown == {
        "Median wait": median,
        "95th percentile": p95,
        "99th percentile": p99,
        "Longest wait": max(waits(selected)),
        "Tasks launched": sum(task["status"] != "waiting" for task in selected),
        "Never started": sum(
            task["started_at"] is None and task["ended_at"] is not None and task["status"] != "waiting"
            for task in selected
        ),
        "Waiting now": waiting,
    }
    assert waiting > 0


@pytest.mark.slow
def test_a_tile_leads_to_its_rows_under_the_filters_of_the_page(client: TestClient) -> None:
    page = client.get("/panels/queue/facts", params={"from": "1970-02-03", "gpu_type": "T4"}).text
    assert "/rows/waits?state=never_started&amp;from=1970-02-03&amp;gpu_type=T4" in page


@pytest.mark.parametrize("question", ["wait_distribution", "run_time_distribution"])
@pytest.mark.parametrize("given", RANGES[:4], ids=str)
def test_a_distribution_counts_those_up_to_each_edge_and_ends_at_one(
    client: TestClient, tasks: list[Row], given: dict[str, str], question: str
) -> None:
    by_type: dict[str, list[float]] = defaultdict(list)
    for task in chosen(tasks, given):
        seconds = task["start_wait_seconds"]
        if question == "run_time_distribution":
            both = task["started_at"] and task["ended_at"]
            seconds = (task["ended_at"] - task["started_at"]).total_seconds() if both else None
        if seconds is not None and seconds >= 0:
            by_type[task["gpu_type"] or "unknown"].append(seconds)
    shown = ask(client, question, **given)
    for row in shown:
        selected, edge = by_type[row["gpu_type"]], row["at_most_seconds"] * (1 + 1e-9)
        assert row["tasks_so_far_ratio"] == pytest.approx(sum(value <= edge for value in selected) / len(selected))
    last = {row["gpu_type"]: row["tasks_so_far_ratio"] for row in shown}
    assert last == dict.fromkeys(by_type, 1.0)
    assert sum(row["tasks"] for row in shown) == sum(map(len, by_type.values()))


def test_the_line_of_each_type_rises_to_one(client: TestClient) -> None:
    for panel in ("distribution", "run_times"):
        for trace in figure_of(client, "queue", panel)["data"]:
            assert trace["y"] == sorted(trace["y"])
            assert trace["y"][-1] == 1


def test_rows_behind_a_point_are_those_that_waited_longer(client: TestClient, tasks: list[Row]) -> None:
    selected = [
        task for task in chosen(tasks, {}) if (task["start_wait_seconds"] or 0) > 100 and task["gpu_type"] == "T4"
    ]
    shown = ask(client, "waits", gpu_type="T4", longer=100)
    assert sorted(row["job_id"] for row in shown) == sorted(task["job_id"] for task in selected)
    assert [row["wait_seconds"] for row in shown] == sorted((row["wait_seconds"] for row in shown), reverse=True)
    assert all(row["size"] == 4 for row in ask(client, "waits_by_size") if row["requested_gpus"] == "1")
    assert {row["request_size"] for row in ask(client, "waits", size=4)} == {"1"}
    assert {row["job_id"] for row in ask(client, "waits", state="waiting", cluster="tiger")} == {"84"}


def test_the_longest_waits_lead_to_their_jobs(client: TestClient) -> None:
    (first, *_) = ask(client, "waits")
    assert ask(client, "longest_waits")[0] == first
    assert (
        f'href="/job?job={first["job_id"]}&amp;cluster={first["cluster_id"]}"'
        in client.get("/panels/queue/longest").text
    )


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"from": "1970-02-03", "to": "1970-02-05"}, {"gpu_type": "T4"}], ids=str)
def test_demand_is_all_that_the_mart_has(client: TestClient, rich: Config, given: dict[str, str]) -> None:
    rows = [
        row
        for row in rows_of(Lake(rich), "FROM gold_demand_hourly")
        if given.get("from", "0") <= str(row["dt"]) <= given.get("to", "9")
        and given.get("gpu_type", row["gpu_type"]) == row["gpu_type"]
    ]
    shown = ask(client, "demand_over_time", **given)
    for column in ("submitted_tasks", "requested_gpus", "waiting_gpu_hours", "held_gpu_hours", "available_gpu_hours"):
        assert sum(row[column] for row in shown) == pytest.approx(sum(row[column] for row in rows))  # type: ignore[misc]
    assert len(ask(client, "demand_hours", **given)) == len(rows)


def test_a_long_range_is_shown_by_the_day(rich: Config) -> None:
    asked = questions()["demand_over_time"]
    by_day = replace(asked, sql=asked.sql.replace(f"<= {MOST_HOURS}", "<= 10"))
    answers = Answers(Lake(rich).open())
    given = {"from": None, "to": None, "cluster": "synth", "gpu_type": None}
    hours, days = (answers._ask(Asked(one, given, LOCAL, 5_000)).rows for one in (asked, by_day))
    assert {row["begin"] for row in days} == {f"{row['begin'][:10]} 00:00" for row in hours}
    assert sum(row["held_gpu_hours"] for row in days) == pytest.approx(sum(row["held_gpu_hours"] for row in hours))


def test_an_hour_of_the_week_is_that_of_the_clusters_clock(client: TestClient, rich: Config) -> None:
    lake = Lake(rich)
    zones = {row["cluster_id"]: ZoneInfo(str(row["time_zone"])) for row in rows_of(lake, "FROM silver_clusters")}
    assert zones["tiger"] != zones["synth"]
    hours: dict[tuple[int, int], dict[datetime, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in cast("list[Row]", rows_of(lake, "FROM gold_demand_hourly")):
        local = row["started_at"].astimezone(zones[row["cluster_id"]]).replace(tzinfo=None)
        demanded = row["waiting_gpu_hours"] + row["held_gpu_hours"]
        hours[local.isoweekday(), local.hour][local] += [demanded, row["available_gpu_hours"]]
    shown = ask(client, "demand_by_hour_of_week")
    assert len(shown) == len(hours) == 7 * 24
    for row in shown:
        selected = hours[row["weekday"], row["hour"]]
        demanded = sum(sum(values[::2]) for values in selected.values())
        assert row["hours"] == len(selected)
        assert row["demanded_ratio"] == pytest.approx(demanded / sum(sum(values[1::2]) for values in selected.values()))
    behind = ask(client, "demand_hours", cluster="tiger", weekday=7, hour=5)
    assert {(row["day"], row["begin"]) for row in behind} == {("2026-03-01", "2026-03-01 05:00")}
    assert ask(client, "demand_hours", cluster="tiger", weekday=7, hour=10) != []
    assert ask(client, "demand_hours", cluster="tiger", weekday=7, hour=15) == []


def test_a_gpu_type_cannot_write_html_into_a_figure() -> None:
    name = "<b>T4</b>"
    row = {"gpu_type": name, "waits": 1, **{f"p{percent}_wait_seconds": 0.0 for percent in (50, 90, 95, 99)}}
    figure = queue.waits_by_type([row])
    assert figure["data"][0]["x"] == ["&lt;b&gt;T4&lt;/b&gt;"]
    assert figure["data"][0]["customdata"] == [name]
    assert all(math.isclose(trace["y"][0], queue.LEAST_SECONDS) for trace in figure["data"])
    line = {"gpu_type": name, "at_most_seconds": 1.0, "tasks": 1, "tasks_so_far_ratio": 1.0}
    assert queue.distribution([line])["data"][0]["name"] == "&lt;b&gt;T4&lt;/b&gt;"


def test_a_week_has_all_its_hours_even_without_data() -> None:
    (heat,) = queue.week([])["data"]
    assert heat["z"] == [[None] * 24] * 7
    assert heat["customdata"][6][23] == [7, 23]
