"""The machines' page: each cell of its map against plain Python over the hours of the machines."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient

from conftest import built_from, rows_of
from gpulake.core.config import Config
from gpulake.core.ledger import BUCKETS, HELD, LOST, SENSED
from gpulake.lake import Lake
from gpulake.show.web.figures import machines
from gpulake.show.web.questions.options import DOWN, METRICS, POOL, UNKNOWN, UNOBSERVED
from show.web.asking import Row, ask, client_of, figure_of
from show.web.lakes import HOSTILE_MACHINE

PARTS = {"used": ("used",), "held": HELD, "idle": ("idle",), "lost": LOST, "unknown": ("unknown",), "down": ("down",)}
BY_HOUR: list[dict[str, str]] = [{"from": "1970-02-03", "to": "1970-02-05"}, {"cluster": "tiger"}]
BY_DAY: list[dict[str, str]] = [{}, {"from": "1970-02-03", "to": "1970-02-06"}, {"gpu_type": "T4"}]


@pytest.fixture(scope="module")
def hours(rich: Config) -> list[Row]:
    query = """
SELECT gold_machine_hours.*, coalesce(machine_id, '(all machines)') AS machine_id, time_zone
FROM gold_machine_hours LEFT JOIN silver_machines USING (machine_key)
LEFT JOIN silver_clusters ON silver_clusters.cluster_id = gold_machine_hours.cluster_id"""
    return cast("list[Row]", rows_of(Lake(rich), query))


def chosen(hours: list[Row], given: dict[str, str]) -> list[Row]:
    return [
        hour
        for hour in hours
        if given.get("from", "0") <= str(hour["dt"]) <= given.get("to", "9")
        and all(given.get(kind, hour[column]) == hour[column] for kind, column in FILTERS.items())
    ]


FILTERS = {"cluster": "cluster_id", "gpu_type": "gpu_type"}


def begin_of(hour: Row, is_hourly: bool) -> str:
    local = hour["started_at"].astimezone(ZoneInfo(hour["time_zone"]))
    return f"{local:%Y-%m-%d %H:%M}" if is_hourly else str(hour["dt"])


def share_of(sums: dict[str, float], metric: str) -> float:
    capacity = sums["capacity"]
    if metric != "down" and sums["down"] >= capacity / 2:
        return DOWN
    if metric not in ("unknown", "down") and sums["unknown"] >= capacity / 2:
        return UNKNOWN
    if metric in ("used", "idle") and sums["unobserved"] >= capacity / 2:
        return UNOBSERVED
    return sum(sums[part] for part in PARTS[metric]) / capacity


def expected_cells(hours: list[Row], metric: str, is_hourly: bool) -> dict[tuple[str, str, str], float]:
    sums: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for hour in hours:
        cell = sums[hour["cluster_id"], hour["machine_id"], begin_of(hour, is_hourly)]
        for part in (*BUCKETS, "capacity"):
            cell[part] += hour[f"{part}_gpu_hours"]
    return {key: share_of(cell, metric) for key, cell in sums.items()}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("given", [*BY_HOUR, *BY_DAY], ids=str)
def test_each_cell_of_the_map_is_a_sum_over_the_hours_of_its_machine(
    client: TestClient, hours: list[Row], given: dict[str, str], metric: str
) -> None:
    selected = chosen(hours, given)
    shown = {
        (row["cluster_id"], row["machine_id"], begin): share
        for row in ask(client, "machine_heat", metric=metric, **given)
        for begin, share in zip(row["begins"], row["shares"], strict=True)
    }
    expected = expected_cells(selected, metric, given in BY_HOUR)
    assert shown == {key: pytest.approx(share, abs=0.00051) for key, share in expected.items()}


def test_the_map_has_cells_that_are_down_and_cells_that_were_not_observed(client: TestClient) -> None:
    shown = ask(client, "machine_heat", cluster="tiger")
    result = {share for row in shown for share in row["shares"]}
    assert {DOWN, UNOBSERVED} <= result
    of_fan = next(row for row in shown if row["machine_id"] == "gpu03")
    down = [begin for begin, share in zip(of_fan["begins"], of_fan["shares"], strict=True) if share == DOWN]
    assert down == ["2026-03-01 08:00", "2026-03-01 09:00"]  # 13 to 15 UTC


def test_without_a_metric_the_map_shows_what_was_used(client: TestClient) -> None:
    assert ask(client, "machine_heat") == ask(client, "machine_heat", metric="used")


def test_machines_are_sorted_by_type_and_name(client: TestClient) -> None:
    shown = [(row["gpu_type"], row["machine_id"]) for row in ask(client, "machine_heat")]
    assert shown == sorted(shown)


@pytest.mark.parametrize("given", [*BY_HOUR, *BY_DAY], ids=str)
def test_the_ledgers_of_the_machines_sum_to_that_of_the_days(client: TestClient, given: dict[str, str]) -> None:
    days, selected = ask(client, "ledger_by_day", **given), ask(client, "machine_ledgers", **given)
    for bucket in (*BUCKETS, "capacity"):
        total = sum(row[f"{bucket}_gpu_hours"] for row in selected)
        assert total == pytest.approx(sum(row[bucket] for row in days), abs=1e-6)
    for row in selected:
        assert sum(row[f"{bucket}_gpu_hours"] for bucket in BUCKETS) == pytest.approx(row["capacity_gpu_hours"])


def test_the_numbers_of_the_fleet_are_those_of_its_rows(client: TestClient, hours: list[Row]) -> None:
    given = {"from": "1970-02-03", "to": "1970-02-20", "cluster": "synth"}
    selected = chosen(hours, given)
    sums = {part: sum(hour[f"{part}_gpu_hours"] for hour in selected) for part in (*BUCKETS, "capacity")}
    with_gpus = [row for row in ask(client, "machines", cluster="synth") if row["gpus"]]
    shown = {row["label"]: row["value"] for row in ask(client, "fleet_facts", **given)}
    assert shown == {
        "Machines with GPUs": len(with_gpus),
        "GPUs": sum(row["gpus"] for row in with_gpus),
        "Used": pytest.approx(sums["used"] / sum(sums[part] for part in SENSED)),
        "Held": pytest.approx(sum(sums[part] for part in HELD) / sums["capacity"]),
        "Lost": pytest.approx(sum(sums[part] for part in LOST)),
        "Down": pytest.approx(sums["down"]),
        **({"Unknown": pytest.approx(sums["unknown"])} if sums["unknown"] else {}),
        "Lemons": sum(row["is_lemon"] for row in ask(client, "lemon_machines", cluster="synth")),
    }


def test_a_click_on_the_map_has_the_machine_and_its_cluster(client: TestClient) -> None:
    figure = figure_of(client, "machines", "heat", cluster="tiger")
    rows = ask(client, "machine_heat", cluster="tiger")
    for trace in figure["data"]:
        assert trace["meta"]["rows"] == [[row["machine_id"], row["cluster_id"]] for row in rows]
        assert "&lt;img src=x onerror=alert(&#x27;machine&#x27;)&gt;" in trace["y"]
        assert HOSTILE_MACHINE not in trace["y"]
    panel = client.get("/panels/machines/heat", params={"cluster": "tiger"}).text
    assert "<img" not in panel
    assert "/machine?machine={custom0}&amp;cluster={custom1}&amp;from={day}&amp;to={day}" in panel


def test_what_is_no_share_is_in_a_layer_of_its_own(client: TestClient) -> None:
    shares, down, unobserved = figure_of(client, "machines", "heat", cluster="tiger")["data"]
    for row, line in enumerate(ask(client, "machine_heat", cluster="tiger")):
        for at, share in enumerate(line["shares"]):
            cells = [trace["z"][row][at] for trace in (shares, down, unobserved)]
            assert cells == [
                share if share >= 0 else None,
                1 if share == DOWN else None,
                1 if share == UNOBSERVED else None,
            ]


def test_two_machines_of_one_name_are_two_rows() -> None:
    rows = [
        {"cluster_id": name, "machine_id": POOL, "gpu_type": "T4", "begins": [day], "shares": [0.5]}
        for name, day in (("a", "2026-01-02"), ("b", "2026-01-01"))
    ]
    (trace,) = machines.heat(rows)["data"]
    assert trace["y"] == [f"a {POOL}", f"b {POOL}"]
    assert (trace["x"], trace["z"]) == (["2026-01-01", "2026-01-02"], [[None, 0.5], [0.5, None]])


def test_the_types_stand_beside_a_map_of_many_machines() -> None:
    kinds = ["P100"] * 30 + ["T4"] * 31
    rows = [
        {"cluster_id": "c", "machine_id": f"m{at:02}", "gpu_type": kind, "begins": ["2026-01-01"], "shares": [0]}
        for at, kind in enumerate(kinds)
    ]
    layout = machines.heat(rows)["layout"]
    assert layout["yaxis"]["ticktext"] == ["P100 (30)", "T4 (31)"]
    assert layout["yaxis"]["tickvals"] == ["m15", "m45"]
    assert [(shape["y0"], shape["y1"]) for shape in layout["shapes"]] == [(29.5, 29.5)]


@pytest.mark.slow
def test_the_map_has_every_machine_however_many_an_answer_may_have(tmp_path: Path) -> None:
    names = [f"node{at:04}" for at in range(1_100)]
    inventory = "cluster,machine,gpu_type,gpus,cores,memory_gib\n" + "".join(f"c,{name},T4,1,1,1\n" for name in names)
    fields = "JobID|JobName|User|Account|Cluster|State|Submit|Eligible|Start|End|NNodes|ReqTRES|AllocTRES|NodeList"
    time = "2026-03-01T0{}:00:00".format
    row = f"1|a|b|d|c|COMPLETED|{time(1)}|{time(1)}|{time(1)}|{time(2)}|1|gres/gpu=1|gres/gpu=1|node0007"
    lake = built_from(tmp_path, {"machines.csv": inventory, "sacct.txt": f"{fields}\n{row}\n"})
    client = client_of(lake.config)
    assert [name for name, _ in figure_of(client, "machines", "heat")["data"][0]["meta"]["rows"]] == names
    assert client.get("/panels/machines/heat", params={"limit": "20000"}).status_code == 422


def test_a_machine_that_fails_like_its_peers_lies_on_the_line(client: TestClient) -> None:
    rows = ask(client, "lemon_machines")
    points = [
        point
        for trace in figure_of(client, "machines", "lemons")["data"]
        for point in zip(trace["x"], trace["y"], strict=True)
    ]
    compared = [row for row in rows if row["expected_failed_jobs"] is not None]
    assert sorted(points) == sorted((round(row["expected_failed_jobs"], 2), row["failed_jobs"]) for row in compared)


def test_energy_is_that_of_the_days(client: TestClient, rich: Config) -> None:
    (total,) = rows_of(Lake(rich), "SELECT sum(energy_kilowatt_hours) AS kwh FROM gold_energy_daily")
    used, wasted = figure_of(client, "machines", "energy")["data"]
    assert sum(used["y"]) + sum(wasted["y"]) == pytest.approx(total["kwh"], rel=1e-3)


@pytest.mark.parametrize(
    ("question", "table", "is_reported"),
    [
        ("hot_gpus", "gold_hot_gpus_daily", "hot_hours > 0"),
        ("throttled_gpus", "gold_throttled_gpus_daily", "throttled_hours > 0"),
        ("idle_gpus", "gold_idle_gpus_daily", "held_idle_hours > 0"),
        ("gpu_errors", "gold_gpu_errors_daily", "errors > 0"),
    ],
)
def test_gpus_that_telemetry_speaks_of_lead_to_their_machine(
    client: TestClient, rich: Config, question: str, table: str, is_reported: str
) -> None:
    shown = ask(client, question)
    expected = rows_of(Lake(rich), f"SELECT node_id, gpu_index FROM {table} WHERE {is_reported}")
    assert sorted((row["node"], row["gpu_index"]) for row in shown) == sorted(
        (row["node_id"], row["gpu_index"]) for row in expected
    )
    assert f'href="/machine?machine={shown[0]["node"]}&amp;cluster=tiger"' in client.get(f"/rows/{question}").text


@pytest.mark.slow
@pytest.mark.parametrize("page", ["queue", "machines", "machine"])
def test_every_panel_says_what_to_do_on_an_empty_lake(lake: Lake, page: str) -> None:
    client = client_of(lake.config)
    check_panels(client, page, "No build has made", {"machine_incidents"})


@pytest.mark.slow
@pytest.mark.parametrize("page", ["queue", "machines", "machine"])
def test_every_panel_says_so_where_its_tables_are_empty(tmp_path: Path, page: str) -> None:
    lake = built_from(tmp_path, {"machines.csv": "cluster,machine,gpu_type,gpus,cores,memory_gib\nc,m,,0,8,64\n"})
    check_panels(client_of(lake.config), page, 'class="empty"', set())


def check_panels(client: TestClient, page: str, words: str, without: set[str]) -> None:
    from gpulake.show.web.pages import pages

    given = {"machine": "nobody"} if page == "machine" else {}
    assert client.get(f"/{page}", params=given).status_code == 200
    for panel in pages()[page].panels:
        response = client.get(f"/panels/{page}/{panel.name}", params=given)
        assert response.status_code == 200
        assert panel.question in without or words in response.text, panel.name
