"""The page of data quality: every count against the lake's own records, read without SQL."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from conftest import rows_of
from gpulake.core import types
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError
from gpulake.flow import Flow
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.figures import quality as figures
from gpulake.show.web.pages import pages
from show.web.asking import ask


def test_tiles_say_what_landed_what_did_not_and_what_failed(client: TestClient, rich: Config) -> None:
    lake = Lake(rich)
    live = lake.live_landings()
    tests = Counter(row["status"] for row in lake.journal("test_results"))
    runs = lake.journal("runs")
    last = max(runs, key=lambda row: str(row["started_at"]))["run_id"]
    expected = {
        "tests failed": tests["fail"],
        "tests warned": tests["warn"],
        "rows that did not parse": sum(landing.rows_quarantined for landing in live),
        "files landed": len(live),
        "steps failed": sum(row["run_id"] == last and row["status"] == "failed" for row in runs),
    }
    rows = ask(client, "quality_counts")
    assert {row["label"]: row["value"] for row in rows} == expected
    assert expected["rows that did not parse"] == 1
    assert f"{sum(landing.rows_landed for landing in live):,} rows landed" in [row["note"] for row in rows]
    assert f"of {tests.total():,} of the last build" in [row["note"] for row in rows]


def test_what_landed_adds_up_by_table(client: TestClient, rich: Config) -> None:
    live = Lake(rich).live_landings()
    expected = {
        table: (
            sum(one.table == table for one in live),
            sum(one.rows_landed for one in live if one.table == table),
            sum(one.rows_quarantined for one in live if one.table == table),
            max(one.landed_at for one in live if one.table == table),
        )
        for table in {one.table for one in live}
    }
    rows = ask(client, "landed_tables")
    assert {
        row["table"]: (
            row["files"],
            row["rows_landed"],
            row["rows_quarantined"],
            datetime.fromisoformat(row["landed_at"]),
        )
        for row in rows
    } == expected
    assert {row["files_not_built"] for row in rows} == {0}
    assert len(ask(client, "landed_files")) == len(Lake(rich).landings())


@pytest.mark.slow
def test_a_file_that_waits_for_a_build_is_said_to(built_lake: Config, write_csv: Callable[..., Path]) -> None:
    client = TestClient(application(Lake(built_lake)))
    assert not any(row["files_not_built"] for row in ask(client, "landed_tables"))
    Flow(built_lake).land([write_csv("pai_job_table", ["j-new,i-new,ann,Terminated,100,200"])])
    rows = {row["table"]: row for row in ask(client, "landed_tables")}
    assert {table: row["files_not_built"] for table, row in rows.items() if row["files_not_built"]} == {
        "bronze_job_events": 1
    }


@pytest.mark.slow
def test_rows_that_did_not_parse_are_counted_by_what_was_wrong_and_can_be_read(lake: Lake, tmp_path: Path) -> None:
    lines = ["j1,i1,u,Terminated,1,2", "j2,i2,u,Terminated,soon,2", "j3,i3,u,Terminated,'<b>',2", "j4,i4"]
    path = tmp_path / "pai_job_table.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    Flow(lake.config).land([path])
    client = TestClient(application(lake))
    kept = ask(client, "quarantined_rows")
    assert {row["line_number"] for row in kept} == {2, 3, 4}
    shapes = Counter(re.sub("is ('.*'|\".*\"), which", "is …, which", row["reason"]) for row in kept)
    rows = ask(client, "quarantine_by_reason")
    assert {row["reason"]: row["rows"] for row in rows} == dict(shapes)
    assert max(shapes.values()) == 2, "what did not parse differs, and why is the same"
    for row in rows:
        query = {name: values[0] for name, values in parse_qs(urlsplit(row["link"]).query).items()}
        assert len(ask(client, "quarantined_rows", **query)) == row["rows"]
    panel = client.get("/panels/quality/quarantined").text
    assert "'<b>'" not in panel
    assert html.escape("<b>") in panel


def test_clusters_are_known_up_to_their_last_event(client: TestClient, rich: Config) -> None:
    lake = Lake(rich)
    clusters = rows_of(lake, "SELECT * FROM silver_clusters")
    (build,) = rows_of(lake, "SELECT * FROM build_info")
    rows = {row["cluster_id"]: row for row in ask(client, "cluster_freshness")}
    assert {name: datetime.fromisoformat(row["last_event_at"]) for name, row in rows.items()} == {
        row["cluster_id"]: row["observed_until"] for row in clusters
    }
    assert {datetime.fromisoformat(row["built_at"]) for row in rows.values()} == {build["built_at"]}
    assert [row["cluster_id"] for row in ask(client, "cluster_freshness", cluster="tiger")] == ["tiger"]


def test_coverage_of_a_cluster_is_that_of_its_days(traced: TestClient, shared_lake: Config) -> None:
    days = rows_of(Lake(shared_lake), "SELECT * FROM gold_cluster_coverage_daily ORDER BY dt")
    rows = ask(traced, "coverage_by_day")
    assert [(row["day"], row["is_poorly_covered"]) for row in rows] == [
        (str(day["dt"]), day["is_poorly_covered"]) for day in days
    ]
    (cluster,) = ask(traced, "cluster_freshness")
    observed = sum(float(str(day["observed_gpu_hours"])) for day in days)
    capacity = sum(float(str(day["capacity_gpu_hours"])) for day in days)
    assert cluster["coverage_ratio"] == pytest.approx(observed / capacity)
    assert (cluster["days"], cluster["poorly_covered_days"]) == (
        len(days),
        sum(bool(day["is_poorly_covered"]) for day in days),
    )
    two = rows[1:3]
    assert ask(traced, "coverage_by_day", **{"from": two[0]["day"], "to": two[1]["day"]}) == two
    hollow = figures.coverage(rows)["data"][0]["marker"]["color"]
    assert [colour == "white" for colour in hollow] == [row["is_poorly_covered"] for row in rows]


@pytest.mark.slow
def test_tests_that_failed_come_first(lake: Lake) -> None:
    results = [
        types.TestResult("fine", "gold_x", "", "error", 0, 0.1),
        types.TestResult("<b>odd</b>", "gold_x", "c", "warn", 3, 0.1),
        types.TestResult("broken", "gold_y", "c", "error", 7, 0.1),
    ]
    lake.record_tests("b1", results)
    client = TestClient(application(lake))
    assert [(row["name"], row["status"]) for row in ask(client, "test_results")] == [
        ("broken", "fail"),
        ("<b>odd</b>", "warn"),
        ("fine", "pass"),
    ]
    assert [row["name"] for row in ask(client, "test_results", status="warn")] == ["<b>odd</b>"]
    counts = {row["label"]: (row["value"], row["level"]) for row in ask(client, "quality_counts")}
    assert (counts["tests failed"], counts["tests warned"]) == ((1, "bad"), (1, "bad"))
    assert "<b>odd" not in client.get("/panels/quality/tests").text


@pytest.mark.slow
def test_steps_of_gpulake_are_shown_with_failures_first(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(GpulakeError):
        Flow(lake.config).land([tmp_path / "not there"])
    (tmp_path / "pai_job_table.csv").write_text("j1,i1,u,Terminated,1,2\n")
    Flow(lake.config).land([tmp_path / "pai_job_table.csv"])
    runs = lake.journal("runs")
    client = TestClient(application(lake))
    rows = ask(client, "steps")
    assert Counter((row["step"], row["status"]) for row in rows) == Counter((r["step"], r["status"]) for r in runs)
    statuses = [row["status"] for row in rows]
    assert statuses == sorted(statuses, key=lambda status: status != "failed")
    seconds = {(row["run_id"], row["step"]): row["seconds"] for row in ask(client, "steps_by_command")}
    assert seconds == {
        (run["run_id"], run["step"]): pytest.approx(
            sum(r["seconds"] for r in runs if (r["run_id"], r["step"]) == (run["run_id"], run["step"]))
        )
        for run in runs
    }
    drawn = figures.steps(
        [{**row, "command_at": datetime.fromisoformat(row["command_at"])} for row in ask(client, "steps_by_command")]
    )
    assert sum(sum(trace["y"]) for trace in drawn["data"]) == pytest.approx(sum(run["seconds"] for run in runs))


def test_the_build_in_use_is_described(traced: TestClient, shared_lake: Config) -> None:
    lake = Lake(shared_lake)
    (info,) = rows_of(lake, "SELECT * FROM build_info")
    (row,) = ask(traced, "build")
    assert (row["build_id"], row["input_files"]) == (info["build_id"], len(lake.live_landings()))
    tables = ask(traced, "table_freshness")
    assert len(tables) == row["tables"]
    assert {one["is_carried_over"] for one in tables} == {False}


@pytest.mark.slow
def test_what_a_partial_build_carried_over_is_said_to_be(built_lake: Config) -> None:
    Flow(built_lake).build(["gold_jobs_daily"])
    rows = {row["table"]: row for row in ask(TestClient(application(Lake(built_lake))), "table_freshness")}
    assert not rows["gold_jobs_daily"]["is_carried_over"]
    assert rows["gold_queue_waits"]["is_carried_over"]


def test_every_panel_of_the_page_answers(client: TestClient) -> None:
    assert client.get("/quality").status_code == 200
    for panel in pages()["quality"].panels:
        answer = client.get(f"/panels/quality/{panel.name}")
        assert answer.status_code == 200
        assert "<b>yesterday" not in answer.text
