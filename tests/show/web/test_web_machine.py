"""The page of one machine, known by its inventory or by its telemetry alone."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from typing import cast

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.ledger import BUCKETS
from gpulake.flow.incidents import read_incident
from gpulake.lake import Lake
from gpulake.show.web.figures import machine
from gpulake.show.web.questions.options import MACHINE_POINTS
from show.web.asking import Row, ask, client_of, figure_of
from show.web.lakes import HOSTILE_JOB, HOSTILE_MACHINE

MOST_ATTEMPTS = 1_000  # of the timeline: the last
BEGAN_AT = datetime(2026, 3, 1, tzinfo=UTC)
BUSIEST = """
SELECT machine_id, machine_key FROM silver_machines INNER JOIN silver_machine_stretches USING (machine_key)
GROUP BY ALL ORDER BY count(*) DESC, machine_id LIMIT 1"""


@pytest.fixture(scope="module")
def of_trace(shared_lake: Config) -> TestClient:
    return client_of(shared_lake)


@pytest.fixture(scope="module")
def traced(shared_lake: Config) -> Row:
    """The machine of the trace that has most metrics."""
    (result,) = rows_of(Lake(shared_lake), BUSIEST)
    return cast("Row", result)


def tiles(client: TestClient, **given: str) -> dict[str, str]:
    return {row["label"]: row["value"] for row in ask(client, "machine_facts", **given)}


def test_a_machine_of_the_inventory_has_its_facts(client: TestClient) -> None:
    shown = tiles(client, machine="gpu03")
    (lemon,) = [row for row in ask(client, "lemon_machines") if row["machine_id"] == "gpu03"]
    (ledger,) = [row for row in ask(client, "machine_ledgers") if row["machine_id"] == "gpu03"]
    held = ledger["capacity_gpu_hours"] - ledger["down_gpu_hours"] - ledger["unallocated_gpu_hours"]
    assert shown == {
        "Cluster": "tiger",
        "GPUs": "2 × H100",
        "Cores": "8",
        "Memory": "64 GiB",
        "Held": f"{held / ledger['capacity_gpu_hours']:.1%}",
        "Down": "4.0",
        "Lemon rank": str(lemon["rank"]),
    }


def test_a_node_that_telemetry_alone_knows_has_a_page(client: TestClient) -> None:
    assert tiles(client, machine="edge1") == {"Cluster": "local", "Cores": "8", "Memory": "64 GiB"}
    assert tiles(client, machine="edge1", cluster="local") == tiles(client, machine="edge1")
    assert tiles(client, machine="edge1", cluster="tiger") == {}
    (event,) = ask(client, "machine_events", machine="edge1")
    assert (event["kind"], event["message"]) == ("link_down", "eth0: link is down")


def test_an_unknown_machine_is_said_to_be_unknown(client: TestClient) -> None:
    assert "This machine is in no inventory and no telemetry" in client.get("/panels/machine/facts?machine=nobody").text
    assert client.get("/machine").status_code == 422


def test_a_name_cannot_write_html_into_its_page(client: TestClient) -> None:
    page = client.get("/machine", params={"machine": HOSTILE_MACHINE}).text
    assert "<img" not in page
    assert tiles(client, machine=HOSTILE_MACHINE)["GPUs"] == "2 × H100"


@pytest.mark.parametrize("span", [{}, {"from": "1970-02-03", "to": "1970-02-04"}, {"from": "1970-02-03"}], ids=str)
def test_its_ledger_is_all_of_its_hours(
    of_trace: TestClient, shared_lake: Config, traced: Row, span: dict[str, str]
) -> None:
    query = f"FROM gold_machine_hours WHERE machine_key = {traced['machine_key']}"
    hours = [
        row
        for row in cast("list[Row]", rows_of(Lake(shared_lake), query))
        if span.get("from", "0") <= str(row["dt"]) <= span.get("to", "9")
    ]
    shown = ask(of_trace, "machine_ledger", machine=traced["machine_id"], **span)
    for bucket in (*BUCKETS, "capacity"):
        assert sum(row[bucket] for row in shown) == pytest.approx(sum(hour[f"{bucket}_gpu_hours"] for hour in hours))
    assert len(shown) == (len(hours) if "to" in span else len({hour["dt"] for hour in hours}))
    for row in shown:
        assert sum(row[bucket] for bucket in BUCKETS) == pytest.approx(row["capacity"])


def test_what_it_used_is_the_same_after_it_was_thinned_out(
    of_trace: TestClient, shared_lake: Config, traced: Row
) -> None:
    query = f"FROM silver_machine_stretches WHERE machine_key = {traced['machine_key']}"
    stretches = cast("list[Row]", rows_of(Lake(shared_lake), query))
    shown = ask(of_trace, "machine_use", machine=traced["machine_id"])
    assert 0 < len(shown) <= MACHINE_POINTS
    assert sum(row["observed_seconds"] for row in shown) == pytest.approx(sum(one["seconds"] for one in stretches))
    used = sum(one["busy_gpus"] * one["seconds"] for one in stretches)
    assert sum(row["busy_gpus"] * row["observed_seconds"] for row in shown) == pytest.approx(used)


def test_samples_are_the_same_after_they_were_thinned_out(client: TestClient, rich: Config) -> None:
    samples = cast("list[Row]", rows_of(Lake(rich), "FROM silver_gpu_samples WHERE node_id = 'gpu01'"))
    by_gpu: dict[str, list[Row]] = defaultdict(list)
    for row in ask(client, "machine_gpus", machine="gpu01"):
        by_gpu[row["gpu_id"]].append(row)
    assert set(by_gpu) == {sample["gpu_id"] for sample in samples}
    for gpu, rows in by_gpu.items():
        selected = [sample for sample in samples if sample["gpu_id"] == gpu]
        assert len(rows) <= MACHINE_POINTS
        assert sum(row["samples"] for row in rows) == len(selected)
        for column in ("busy_ratio", "memory_used_bytes", "temperature_celsius", "power_watts"):
            total = sum(row[column] * row["samples"] for row in rows)
            assert total == pytest.approx(sum(sample[column] for sample in selected))
    assert ask(client, "machine_gpus", machine="gpu01", to="2026-02-28") == []
    assert len(ask(client, "machine_gpus", machine="gpu01", **{"from": "2026-03-01"})) == sum(map(len, by_gpu.values()))


def test_each_gpu_has_a_line_in_each_chart(client: TestClient, of_trace: TestClient, traced: Row) -> None:
    assert len(figure_of(of_trace, "machine", "use", machine=traced["machine_id"])["data"]) == 2
    traces = figure_of(client, "machine", "gpus", machine="gpu01")["data"]
    assert {trace["yaxis"] for trace in traces} == {"y", "y2", "y3", "y4"}
    assert {trace["name"] for trace in traces} == {"GPU 0", "GPU 1"}


@pytest.mark.parametrize("span", [{}, {"from": "1970-02-03", "to": "1970-02-08"}], ids=str)
def test_its_attempts_are_those_that_touch_the_days(
    of_trace: TestClient, shared_lake: Config, traced: Row, span: dict[str, str]
) -> None:
    begin, end = (datetime.fromisoformat(f"{span.get(key, day)}T00:00+08:00") for key, day in LIMITS)
    query = f"FROM silver_holdings WHERE machine_key = {traced['machine_key']}"
    held = [
        row
        for row in cast("list[Row]", rows_of(Lake(shared_lake), query))
        if row["held_until"] > begin and row["held_from"] < end + timedelta(days=1)
    ]
    shown = ask(of_trace, "machine_attempts", machine=traced["machine_id"], **span)
    assert len(shown) == len(held) > 0
    hours = sum(row["gpus"] * row["held_seconds"] / 3600 for row in held)
    assert sum(row["held_gpu_hours"] for row in shown) == pytest.approx(hours)
    jobs = ask(of_trace, "machine_jobs", machine=traced["machine_id"], **span)
    assert len(jobs) == len({row["job_key"] for row in held})
    assert sum(row["held_gpu_hours"] for row in jobs) == pytest.approx(hours)
    assert sum(row["attempts"] for row in jobs) == len(held)


LIMITS = (("from", "1900-01-01"), ("to", "2100-01-01"))


def test_an_attempt_that_started_before_the_days_is_shown(of_trace: TestClient, shared_lake: Config) -> None:
    query = """
SELECT machine_id, job_id, held_from, held_until FROM silver_holdings INNER JOIN silver_machines USING (machine_key)
INNER JOIN silver_jobs USING (job_key) ORDER BY held_seconds DESC, job_id LIMIT 1"""
    (longest,) = cast("list[Row]", rows_of(Lake(shared_lake), query))
    zone = timezone(timedelta(hours=8))
    first, last = (longest[edge].astimezone(zone).date() for edge in ("held_from", "held_until"))
    assert first < last
    for day in (first, last):
        span = {"from": str(day), "to": str(day), "machine": longest["machine_id"]}
        for question in ("machine_attempts", "machine_jobs"):
            assert longest["job_id"] in {row["job_id"] for row in ask(of_trace, question, **span)}
    before = {"to": str(first - timedelta(days=1)), "machine": longest["machine_id"]}
    assert longest["job_id"] not in {row["job_id"] for row in ask(of_trace, "machine_jobs", **before)}


def test_every_attempt_is_a_bar_of_its_length(of_trace: TestClient, traced: Row) -> None:
    shown = ask(of_trace, "machine_attempts", machine=traced["machine_id"])[:MOST_ATTEMPTS]
    bars = [
        (custom[0], length / 1000)
        for trace in figure_of(of_trace, "machine", "timeline", machine=traced["machine_id"])["data"]
        for custom, length in zip(trace["customdata"], trace["x"], strict=True)
    ]
    assert sorted(bars) == sorted((row["job_id"], round(row["held_seconds"], 3)) for row in shown)


def test_its_jobs_can_be_clicked(client: TestClient) -> None:
    figure = figure_of(client, "machine", "timeline", machine="gpu03")
    assert [HOSTILE_JOB, "tiger"] in [one for trace in figure["data"] for one in trace["customdata"]]
    assert f'href="/job?job={HOSTILE_JOB}&amp;cluster=tiger"' in client.get("/panels/machine/jobs?machine=gpu03").text


def test_it_was_down_in_recorded_outages(client: TestClient) -> None:
    (outage,) = ask(client, "machine_outages", machine="gpu03")
    assert (outage["basis"], outage["down_seconds"]) == ("recorded", 7200)
    assert ask(client, "machine_outages", machine="gpu03", to="2026-02-28") == []


def test_its_errors_are_shown(client: TestClient) -> None:
    (error,) = ask(client, "machine_gpu_errors", machine="gpu01")
    assert (error["serious_errors"], error["ecc_corrected"], error["xid_counts"]) == (1, 119, '{"79": 1}')
    (event,) = ask(client, "machine_events", machine="gpu01")
    assert event["code"] == 79
    assert ask(client, "machine_events", machine="gpu01", to="2026-02-28") == []


@pytest.mark.slow
def test_incidents_and_findings_about_it_are_shown(rich_copy: Config) -> None:
    journal = rich_copy.lake / "incidents.jsonl"
    known, *others = map(json.loads, journal.read_text().splitlines())
    fault, *_ = (one for one in (known, *others) if (one["node"], one["kind"]) == ("gpu01", "node_fault"))
    node = {"node": "gpu01", "subject": "the fan", "cluster_id": None, "incident_id": "i-1&2", "cause": "<b>hot</b>"}
    other = {"node": None, "subject": "gpu02", "cluster_id": "tiger", "incident_id": "i-2"}
    elsewhere = {"node": "gpu01", "subject": "gpu01", "cluster_id": "pai", "incident_id": "i-3"}
    with journal.open("a") as lines:
        lines.writelines(
            json.dumps({**known, **one, "severity": "critical"}) + "\n" for one in (node, other, elsewhere)
        )
    build = Lake(rich_copy).builds.current()
    assert build is not None
    with duckdb.connect(str(build)) as connection:
        connection.execute("UPDATE findings SET node = 'gpu01', headline = '<i>slow</i>' WHERE rank = 1")
    client = client_of(rich_copy)
    shown = ask(client, "machine_incidents", machine="gpu01", cluster="tiger")
    assert [(row["headline"], row["level"], row["link"]) for row in shown] == [
        ("<b>hot</b>", "critical", "/incident?incident=i-1%262"),
        (fault["cause"], "critical", f"/incident?incident={fault['incident_id']}"),
    ]
    assert len(ask(client, "machine_incidents", machine="gpu01")) == 3
    assert [row["link"] for row in ask(client, "machine_incidents", machine="gpu02")] == ["/incident?incident=i-2"]
    assert "&lt;b&gt;hot&lt;/b&gt;" in client.get("/panels/machine/incidents?machine=gpu01").text
    assert "&lt;i&gt;slow&lt;/i&gt;" in client.get("/panels/machine/findings?machine=gpu01").text
    assert ask(client, "machine_findings", machine="gpu02") == []
    of_fault = f"/incident?incident={fault['incident_id']}"
    (found,) = [row for row in ask(client, "machine_findings", machine="gpu01") if row["link"] == of_fault]
    assert found["incident_state"] == read_incident(Lake(rich_copy), str(fault["incident_id"])).history[-1].state


def test_a_line_has_a_gap_where_nothing_was_observed() -> None:
    rows = [
        {"began_at": BEGAN_AT + timedelta(hours=hour), "busy_gpus": float(hour), "cpu_util_ratio": None}
        for hour in (0, 1, 3, 7)
    ]
    busy, _ = machine.use(rows)["data"]
    assert list(zip(busy["x"], busy["y"], strict=True)) == [
        ("2026-03-01 00:00:00", 0),
        ("2026-03-01 01:00:00", 1),
        ("2026-03-01 03:00:00", 3),
        ("2026-03-01 04:00:00", None),
        ("2026-03-01 07:00:00", 7),
    ]
    assert machine.use([])["data"][0]["x"] == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=40))
def test_attempts_share_a_lane_only_one_after_the_other(spans: list[tuple[int, int]]) -> None:
    ordered = [
        (BEGAN_AT + timedelta(hours=begin), BEGAN_AT + timedelta(hours=begin + length))
        for begin, length in sorted(spans)
    ]
    lanes = machine.packed(ordered)
    last: dict[int, datetime] = {}
    for (begin, end), lane in zip(ordered, lanes, strict=True):
        assert last.get(lane, begin) <= begin
        last[lane] = end
    at_once = max((sum(one <= begin < other for one, other in ordered) for begin, _ in ordered), default=0)
    assert len(set(lanes)) == at_once
