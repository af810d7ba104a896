"""What Prometheus reads of a lake and of its server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections import defaultdict
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from attack.serving import serving
from fastapi.testclient import TestClient
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.ledger import BUCKETS, HELD
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.gauges import GAUGES
from gpulake.show.web.metrics import Requests, route_of

PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")
HOSTILE = 'a"b\\c\nd{e="f"}\u2028<script>'


def _client(config: Config) -> TestClient:
    return TestClient(application(Lake(config)))


def _families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def _values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in the order of their names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


@pytest.fixture(scope="module")
def text(rich: Config) -> str:
    answer = _client(rich).get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def test_the_gpu_time_of_the_last_complete_day_is_that_of_the_ledger(rich: Config, text: str) -> None:
    hours = rows_of(Lake(rich), "SELECT * FROM gold_ledger_hourly")
    of_day: dict[tuple[Any, Any], set[Any]] = defaultdict(set)
    for row in hours:
        of_day[row["cluster_id"], row["dt"]].add(row["started_at"])
    last = {}
    for cluster in {cluster for cluster, _ in of_day}:
        days = sorted(dt for other, dt in of_day if other == cluster)
        whole = [dt for dt in days if len(of_day[cluster, dt]) >= 24 or days[0] < dt < days[-1]]
        if whole:
            last[cluster] = whole[-1]
    assert last  # and tiger, which has a few hours of one day, has none
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    capacity: dict[tuple[str, ...], float] = defaultdict(float)
    held: dict[tuple[str, ...], float] = defaultdict(float)
    for row in hours:
        cluster, kind = str(row["cluster_id"]), str(row["gpu_type"])
        if last.get(cluster) == row["dt"]:
            capacity[cluster, kind] += 3600 * float(str(row["capacity_gpu_hours"]))
            for bucket in BUCKETS:
                seconds = 3600 * float(str(row[f"{bucket}_gpu_hours"]))
                sums[bucket, cluster, kind] += seconds
                held[cluster, kind] += seconds if bucket in HELD else 0
    assert _values(text, "gpulake_lake_day_gpu_seconds") == pytest.approx(sums, abs=1e-5)
    assert _values(text, "gpulake_lake_day_capacity_gpu_seconds") == pytest.approx(capacity, abs=1e-5)
    assert _values(text, "gpulake_lake_day_held_gpu_seconds") == pytest.approx(held, abs=1e-5)


def test_the_newest_hour_sums_to_its_capacity(text: str) -> None:
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for (_, cluster, kind), value in _values(text, "gpulake_lake_hour_gpu_seconds").items():
        sums[cluster, kind] += value
    assert sums == pytest.approx(_values(text, "gpulake_lake_hour_capacity_gpu_seconds"), abs=1e-4)


@pytest.mark.slow
def test_jobs_waits_incidents_findings_and_tests_are_counted_as_their_tables_do(rich: Config, text: str) -> None:
    lake = Lake(rich)
    waits = rows_of(lake, "SELECT * FROM gold_queue_waits")
    assert _values(text, "gpulake_lake_queue_wait_seconds_count") == {
        (str(row["cluster_id"]), str(row["gpu_type"] or ""), str(row["request_size"])): row["start_wait_tasks"]
        for row in waits
    }
    halves = {key: value for key, value in _values(text, "gpulake_lake_queue_wait_seconds").items() if "0.5" in key}
    assert halves == {
        (str(row["cluster_id"]), str(row["gpu_type"] or ""), "0.5", str(row["request_size"])): pytest.approx(
            row["p50_start_wait_seconds"]
        )
        for row in waits
        if row["p50_start_wait_seconds"] is not None
    }
    for name, table in (("open_incidents", "incidents WHERE state <> 'resolved'"), ("findings", "findings")):
        (counted,) = rows_of(lake, f"SELECT count(*) AS n FROM {table}")
        assert sum(_values(text, f"gpulake_lake_{name}").values()) == counted["n"] > 0  # type: ignore[operator]
    for name, table in (("tests", "test_results"), ("quarantined_rows", "quarantine")):
        (counted,) = rows_of(lake, f"SELECT count(*) AS n FROM {table}")
        assert sum(_values(text, f"gpulake_lake_{name}").values()) == counted["n"] > 0  # type: ignore[operator]
    ended = rows_of(lake, "SELECT cluster_id, dt, ended_jobs FROM gold_jobs_daily")
    days = _values(text, "gpulake_lake_day_timestamp_seconds")
    for (cluster,), value in _values(text, "gpulake_lake_day_ended_jobs").items():
        assert value in [row["ended_jobs"] for row in ended if row["cluster_id"] == cluster]
        assert (cluster,) in days


@pytest.mark.slow
def test_utilisation_is_that_of_the_newest_complete_day_that_was_observed(shared_lake: Config) -> None:
    text = _client(shared_lake).get("/metrics").text
    (day,) = _values(text, "gpulake_lake_day_timestamp_seconds").values()
    began = {
        row["dt"]: row["at"]
        for row in rows_of(Lake(shared_lake), "SELECT dt, epoch(started_at) AS at FROM silver_days")
    }
    days = rows_of(Lake(shared_lake), "SELECT * FROM gold_cluster_util_daily ORDER BY dt")
    newest = [row for row in days if began[row["dt"]] <= day][-1]  # type: ignore[operator]
    assert _values(text, "gpulake_lake_day_gpu_utilisation_ratio") == {("synth",): newest["gpu_util_ratio"]}
    assert _values(text, "gpulake_lake_day_coverage_ratio") == {("synth",): newest["coverage_ratio"]}


def test_every_family_has_help_and_a_type_and_the_names_follow_the_conventions(rich: Config, text: str) -> None:
    families = _families(text)
    asked = {gauge.name for gauge in GAUGES}
    complete = "FROM gold_cluster_util_daily AS days SEMI JOIN silver_days AS later"
    complete += " ON days.cluster_id = later.cluster_id AND days.dt < later.dt"
    if not rows_of(Lake(rich), complete):
        asked -= {"gpulake_lake_day_gpu_utilisation_ratio", "gpulake_lake_day_coverage_ratio"}
    assert asked <= set(families)
    for name, family in families.items():
        assert family.documentation
        assert family.type in ("gauge", "counter", "summary", "histogram")
        assert name.startswith(("gpulake_lake_", "gpulake_serve_", "process_"))


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on this machine")
def test_promtool_has_nothing_to_say(text: str) -> None:
    assert PROMTOOL is not None
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.slow
def test_hostile_labels_come_back_as_they_were(built_lake: Config) -> None:
    Lake(built_lake).append(
        "incident_events",
        [{"incident_id": "i", "changed_at": "2026-01-01T00:00:00+00:00", "event": "opened", "state": "open",
          "kind": HOSTILE, "severity": "critical", "cluster_id": HOSTILE}],
    )  # fmt: skip
    text = _client(built_lake).get("/metrics").text
    assert _values(text, "gpulake_lake_open_incidents")[HOSTILE, HOSTILE, "critical", "open"] == 1


@pytest.mark.slow
def test_a_lake_without_a_build_has_the_servers_own_metrics(lake: Lake) -> None:
    text = _client(lake.config).get("/metrics").text
    assert "gpulake_serve_info" in _families(text)
    assert "gpulake_lake_day_gpu_seconds" not in _families(text)


@pytest.mark.slow
def test_requests_are_counted_by_few_routes_whatever_people_ask(built_lake: Config) -> None:
    client = _client(built_lake)
    for path in ("/explore", "/api/v1/ledger_by_day", "/api/v1/ledger_by_day?from=2020-01-01", f"/{quote(HOSTILE)}"):
        client.get(path)
    client.get("/api/v1/ledger_by_day.csv")
    client.get("/api/v1/no_such_question")
    text = client.get("/metrics").text
    counts = _values(text, "gpulake_serve_requests_total")
    assert counts == {
        ("GET", "/explore", "200"): 1,
        ("GET", "/api/v1/{name}", "200"): 2,
        ("GET", "/api/v1/{name}.csv", "200"): 1,
        ("GET", "none", "404"): 2,
    }
    assert _values(text, "gpulake_serve_request_duration_seconds_count") == {
        ("/explore",): 1,
        ("/api/v1/{name}",): 2,
        ("/api/v1/{name}.csv",): 1,
        ("none",): 2,
    }


def test_a_histogram_counts_what_is_at_most_its_bound() -> None:
    requests = Requests()
    for seconds in (0.005, 0.0051, 20.0):
        requests.note("/x", "GET", 200, seconds)
    text = "\n".join([*requests.families(), ""])
    buckets = {key[0]: value for key, value in _values(text, "gpulake_serve_request_duration_seconds_bucket").items()}
    assert (buckets["0.005"], buckets["0.01"], buckets["10"], buckets["+Inf"]) == (1, 2, 2, 3)
    assert _values(text, "gpulake_serve_request_duration_seconds_sum") == {("/x",): pytest.approx(20.0101)}


def test_an_unknown_route_is_none() -> None:
    assert route_of({"path": "/api/v1/x"}, 404) == "none"
    assert route_of({"path": "/api/v1/x.parquet"}, 200) == "/api/v1/{name}.parquet"


@pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus on this machine")
def test_a_real_prometheus_scrapes_it(built_lake: Config, tmp_path: Path) -> None:
    assert PROMETHEUS is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serving(built_lake) as url:
        target = url.removeprefix("http://")
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "gpulake", "static_configs": [{"targets": [target]}]}],
        }
        (tmp_path / "p.yml").write_text(json.dumps(settings))
        flags = [f"--config.file={tmp_path / 'p.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        listen = f"--web.listen-address=127.0.0.1:{port}"
        with subprocess.Popen([PROMETHEUS, *flags, listen], stderr=subprocess.DEVNULL) as process:
            try:
                result = _patiently(
                    port, "sum(gpulake_lake_day_gpu_seconds) / sum(gpulake_lake_day_capacity_gpu_seconds)"
                )
            finally:
                process.terminate()
    assert float(result) == pytest.approx(1)


def _patiently(port: int, query: str) -> str:
    for _ in range(150):
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", f"/api/v1/query?query={quote(query)}")
            if result := json.loads(connection.getresponse().read()).get("data", {}).get("result"):
                return str(result[0]["value"][1])
        except (OSError, ValueError):
            pass
        finally:
            connection.close()
        threading.Event().wait(0.1)
    raise AssertionError("Prometheus has nothing after fifteen seconds")
