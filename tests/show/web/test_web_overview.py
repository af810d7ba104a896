"""Overview: numbers that sum to capacity, findings that lead to the thing, and days against what was expected."""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.ledger import BUCKETS, HELD, LOST, SENSED
from gpulake.flow import Flow
from gpulake.flow.incidents import read_incidents
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.plots import holders, utilisation
from gpulake.show.web.figures import ledger
from gpulake.show.web.pages import pages
from hand_made import Attempt, write_accounting, write_trace
from show.web.asking import ask

PAGES = ("explore", "efficiency")
SEVERITY = ("critical", "warning", "info")
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"cluster": "synth"},
    {"cluster": "tiger"},
    {"gpu_type": "T4"},
    {"cluster": "synth", "gpu_type": "P100"},
)


def hours(rich: Config, **given: str) -> dict[str, float]:
    """The sums of the machines' hours: a table below the ledger."""
    sums: dict[str, float] = defaultdict(float)
    for row in rows_of(Lake(rich), "FROM gold_machine_hours"):
        if (
            given.get("cluster", row["cluster_id"]) == row["cluster_id"]
            and given.get("gpu_type", row["gpu_type"]) == row["gpu_type"]
        ):
            for bucket in (*BUCKETS, "capacity"):
                sums[bucket] += float(str(row[f"{bucket}_gpu_hours"]))
    return sums


@pytest.mark.slow
@pytest.mark.parametrize("given", FILTERS)
def test_each_moment_of_the_ledger_sums_to_its_capacity_and_all_to_the_machines_hours(
    client: TestClient, rich: Config, given: dict[str, str]
) -> None:
    rows = ask(client, "ledger", **given)
    assert [sum(row[bucket] for bucket in BUCKETS) for row in rows] == pytest.approx([row["capacity"] for row in rows])
    result = {bucket: sum(row[bucket] for row in rows) for bucket in (*BUCKETS, "capacity")} if rows else {}
    assert result == pytest.approx(dict(hours(rich, **given)))


def test_the_ledger_is_by_hour_for_a_week_and_by_day_for_more(client: TestClient) -> None:
    every = ask(client, "ledger_by_day", cluster="synth")
    first = every[10]["day"]
    for last, lasted in ((every[16]["day"], "hour"), (every[17]["day"], "day")):
        rows = ask(client, "ledger", cluster="synth", **{"from": first, "to": last})
        assert {row["lasted"] for row in rows} == {lasted}
        sums: dict[str, float] = defaultdict(float)
        for row in rows:
            # In the cluster's own zone: an hour is in the day that it begins on.
            assert row["began_at"][:10] == row["day"]
            sums[row["day"]] += row["capacity"]
        assert dict(sums) == pytest.approx(
            {row["day"]: row["capacity"] for row in every if first <= row["day"] <= last}
        )


@pytest.mark.slow
@pytest.mark.parametrize("given", FILTERS)
def test_the_key_numbers_are_those_of_the_machines_hours_the_jobs_and_the_incidents(
    client: TestClient, rich: Config, given: dict[str, str]
) -> None:
    rows = {row["label"]: row["value"] for row in ask(client, "key_numbers", **given)}
    sums = hours(rich, **given)
    held, sensed = (sum(sums[bucket] for bucket in part) for part in (HELD, SENSED))
    ended = rows_of(Lake(rich), "SELECT cluster_id, status FROM silver_jobs WHERE ended_at IS NOT NULL")
    selected = [job["status"] for job in ended if given.get("cluster", job["cluster_id"]) == job["cluster_id"]]
    incidents = [
        one
        for one in read_incidents(Lake(rich))
        if one.state != "resolved" and one.cluster_id in (None, given.get("cluster", one.cluster_id))
    ]
    assert rows == pytest.approx(
        {
            "capacity": sums["capacity"],
            "held": held / sums["capacity"],
            "used": sums["used"] / sensed if sensed else None,
            "under-used": sums["under_used"] / held,
            "idle": sums["idle"] / held,
            "lost": sum(sums[bucket] for bucket in LOST) / held,
            "unobserved": sums["unobserved"] / held,
            **({"unknown": sums["unknown"] / sums["capacity"]} if sums["unknown"] else {}),
            "jobs ended": len(selected),
            "failed": selected.count("failed") / len(selected),
            "unresolved incidents": len(incidents),
        }
    )


def test_key_numbers_say_of_what_time_they_are_and_how_sure_they_are(traced: TestClient, shared_lake: Config) -> None:
    (cluster,) = ask(traced, "observed")
    begin, end = (f"{cluster[name][:10]} {cluster[name][11:16]}" for name in ("observed_from", "observed_until"))
    tiles = {row["label"]: row for row in ask(traced, "key_numbers")}
    for label in ("capacity", "held"):
        assert tiles[label]["note"].endswith(f", observed {begin} to {end} UTC")
    query = f"""
    SELECT sum(lost_gpu_hours) AS lost, sum(inferred_lost_gpu_hours) / sum(lost_gpu_hours) AS inferred,
        sum({" + ".join(f"{bucket}_gpu_hours" for bucket in HELD)}) AS held
    FROM gold_ledger_hourly
    """
    (sums,) = cast("list[dict[str, float]]", rows_of(Lake(shared_lake), query))
    # No checkpoint of a trace is known.
    assert tiles["lost"]["words"] == f"0.0% to {sums['lost'] / sums['held']:.1%}"
    assert tiles["lost"]["note"].startswith(f"0 to {sums['lost']:,.0f} GPU-hours, {sums['inferred']:.0%} inferred: ")
    assert re.search(
        r"^[\d,]+ GPU-hours, of the \d+% of held that sensors measured; \d+% to \d+% of held$", tiles["used"]["note"]
    )


@pytest.mark.slow
def test_a_page_says_that_data_are_generated_and_of_what_time_they_are(config: Config, tmp_path: Path) -> None:
    Flow(config).refresh([write_accounting(tmp_path, "synth")], None)
    with TestClient(application(Lake(config))) as client:
        for path in ("/explore", "/efficiency", "/machines", "/jobs", "/user?user=ann", "/rows/ledger_by_day"):
            text = client.get(path).text
            assert '<span class="mark generated" title="Data of synth were generated' in text, path
            assert "synth (generated): observed from 2025-12-31 16:00 to 2025-12-31 20:00 UTC" in text, path
        for name in ("key_numbers", "ledger_by_day", "observed"):
            assert client.get(f"/api/v1/{name}").json()["generated"] == ["synth"], name


def test_a_page_of_measured_data_says_nothing_of_generated_ones(client: TestClient) -> None:
    text = client.get("/explore?cluster=tiger").text
    assert "generated data" not in text
    assert "tiger: observed from 2026-03-01 " in text
    assert text.count(": observed from ") == 1
    assert client.get("/api/v1/key_numbers?cluster=tiger").json()["generated"] == []


@pytest.mark.slow
def test_unknown_hours_are_shown_on_the_overview(config: Config, tmp_path: Path) -> None:
    raw = write_trace(tmp_path / "raw", [Attempt("j", "ann", 0, 10, gpus=2, used=1), Attempt("k", "ann", 2, 4)])
    tasks = raw / "pai_task_table.csv"
    tasks.write_text("".join(line for line in tasks.read_text().splitlines(keepends=True) if line.startswith("j,")))
    Flow(config).refresh([raw], None)
    with TestClient(application(Lake(config))) as client:
        tiles = {row["label"]: row for row in ask(client, "key_numbers")}
        assert tiles["unknown"]["value"] > 0
        assert tiles["unknown"]["note"].endswith("; the requests of 50% of the attempts are not known")
        assert "<b>the requests of 50% of the attempts of pai are not known</b>" in client.get("/efficiency").text
        figure, _ = panel_figure(client, "/panels/explore/ledger?of=capacity")
        assert "unknown" in [trace["name"] for trace in figure["data"]]


def test_a_key_number_leads_to_its_rows_under_the_same_filters(client: TestClient) -> None:
    given = {"cluster": "synth", "gpu_type": "T4", "from": "1970-02-01"}
    for row in ask(client, "key_numbers", **given):
        assert row["link"].endswith("from=1970-02-01&cluster=synth&gpu_type=T4")
        if row["link"].startswith("/rows/"):
            assert client.get(row["link"]).status_code == 200


def test_findings_are_most_severe_and_newest_first_and_each_leads_to_its_thing(
    traced: TestClient, shared_lake: Config
) -> None:
    rows = ask(traced, "found")
    assert len(rows) == len(rows_of(Lake(shared_lake), "FROM findings"))
    places = [(SEVERITY.index(row["level"]), row["at"] is None, row["at"] or "") for row in rows]
    assert [place[:2] for place in places] == sorted(place[:2] for place in places)
    for level in range(3):
        dated = [at for rank, is_undated, at in places if rank == level and not is_undated]
        assert dated == sorted(dated, reverse=True)
    opened = {(one.kind, one.subject): one.incident_id for one in read_incidents(Lake(shared_lake))}
    for row in rows:
        if row["incident_id"]:
            assert row["link"] == f"/incident?incident={row['incident_id']}"
            assert opened[row["kind"], row["subject"]] == row["incident_id"]
        elif row["kind"] in ("idle_gpus", "runaway_user"):
            assert row["link"].startswith("/user?user=")
            assert traced.get(row["link"]).status_code == 200
        elif row["kind"] == "flagged_day":
            assert row["link"] == f"/jobs?from={row['at']}&to={row['at']}"
    assert {row["kind"] for row in rows} >= {"ledger", "idle_gpus", "flagged_day"}


def test_findings_of_other_days_are_left_out_and_those_of_no_day_stay(traced: TestClient) -> None:
    every = ask(traced, "found")
    day = next(row["at"] for row in every if row["at"])
    selected = ask(traced, "found", **{"from": day, "to": day})
    assert selected == [row for row in every if row["at"] in (day, None)]


def test_utilisation_is_that_of_the_days_with_the_band_of_the_score(traced: TestClient, shared_lake: Config) -> None:
    rows = ask(traced, "utilisation_by_day")
    daily = rows_of(Lake(shared_lake), "FROM gold_cluster_util_daily ORDER BY dt")
    scored = {str(row["dt"]): row for row in rows_of(Lake(shared_lake), "FROM gold_cluster_util_daily_scored")}
    assert [row["dt"] for row in rows] == [str(day["dt"]) for day in daily] != []
    for name in ("gpu_util_ratio", "coverage_ratio", "cpu_util_ratio", "is_poorly_covered"):
        assert [row[name] for row in rows] == pytest.approx([day[name] for day in daily])
    copied = ("own_low_ratio", "own_high_ratio", "own_expected_ratio", "own_flag", "own_score", "why_they_differ")
    assert [[row[name] for name in copied] for row in rows] == [
        [scored[row["dt"]][name] for name in copied] for row in rows
    ]


@pytest.mark.parametrize("of", ["held", "capacity"])
def test_shares_of_held_and_of_capacity_stack_up_to_one_and_know_their_days(client: TestClient, of: str) -> None:
    given = {"cluster": "synth", "gpu_type": "T4"}
    query = "&of=capacity" if of == "capacity" else ""
    figure, panel = panel_figure(client, f"/panels/explore/ledger?cluster=synth&gpu_type=T4{query}")
    traces = {trace["name"]: trace for trace in figure["data"]}
    rows = ask(client, "ledger", **given)
    held = [sum(row[bucket] for bucket in HELD) for row in rows]
    wholes = held if of == "held" else [row["capacity"] for row in rows]
    used = [row["used"] / whole if whole else None for row, whole in zip(rows, wholes, strict=True)]
    assert traces["used"]["y"] == pytest.approx(used)
    stacked = [
        sum(values) for values in zip(*(trace["y"] for trace in traces.values()), strict=True) if None not in values
    ]
    assert stacked == pytest.approx([1.0] * len([whole for whole in wholes if whole]))
    assert all(trace["customdata"] == trace["x"] for trace in traces.values())
    partial = [shape["x0"][:10] for shape in figure["layout"]["shapes"]]
    assert len(partial) == sum(row["is_partial"] for row in rows) > 0
    assert 'data-leads-to="/explore?from={custom}&amp;to={custom}&amp;cluster=synth&amp;gpu_type=T4' in panel


def test_hollow_days_are_poorly_covered_and_flagged_days_say_why(traced: TestClient) -> None:
    rows = ask(traced, "utilisation_by_day")
    figure, _ = panel_figure(traced, "/panels/explore/utilisation")
    (line,) = (trace for trace in figure["data"] if trace.get("name") == "GPU utilisation")
    hollow = [x for x, colour in zip(line["x"], line["marker"]["color"], strict=True) if colour == "white"]
    assert hollow == [row["dt"] for row in rows if row["is_poorly_covered"]]
    (forest,) = (trace for trace in figure["data"] if "forest" in trace.get("name", ""))
    flagged = {row["dt"]: html.escape(row["why_they_differ"]) for row in rows if row["anomaly_flag"]}
    assert dict(zip(forest["x"], forest["text"], strict=True)) == flagged != {}
    assert line["text"] == [html.escape(row["why_they_differ"]) for row in rows]


def test_figures_of_nothing_can_be_drawn() -> None:
    assert ledger.area([])["data"] == []
    assert all(trace["x"] == [] for trace in utilisation([], [])["data"])
    assert all(trace["y"] == [] for trace in holders([], "user_id")["data"])
    assert ledger.spread([])["data"][0]["x"] == []


@pytest.mark.slow
def test_every_panel_says_what_to_do_where_there_is_nothing(config: Config) -> None:
    with TestClient(application(Lake(config).create())) as client:
        for page in (*PAGES, "user", "group"):
            for panel in pages()[page].panels:
                response = client.get(f"/panels/{page}/{panel.name}", params={"user": "ann", "group": "ann"})
                assert response.status_code == 200, panel.name
                # Incidents need no build: a diagnosis opens one, too.
                way = "gpulake diagnose" if panel.question == "incidents" else "gpulake refresh"
                assert way in response.text, panel.name


def panel_figure(client: TestClient, path: str) -> tuple[dict[str, Any], str]:
    text = client.get(path).text
    result = re.search(r'<script type="application/json" class="figure">(.*?)</script>', text, re.DOTALL)
    assert result, text
    figure: dict[str, Any] = json.loads(result[1])
    return figure, text
