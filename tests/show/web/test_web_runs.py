"""Collected runs on the dashboard: what was sampled, and traces span by span."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.lake import Lake
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.questions import questions
from gpulake.show.web.viewers import LOCAL
from show.web.night_run import COMMANDS, HOSTILE_PATH, LONG_TRACE, LONG_TRACE_SPANS, NODES, RUN, TICKS

Row = dict[str, Any]


def ask(answers: Answers, name: str, **values: Any) -> list[Row]:
    return list(answers.ask(Asked(questions()[name], values, LOCAL, 1000)).rows)


def depth_of(span: Row, by_id: dict[str, Row]) -> int:
    """How many causes a span has above it; none, where it is among its own."""
    depth, seen, parent = 0, {span["span_id"]}, by_id.get(span["parent_span_id"])
    while parent:
        if parent["span_id"] in seen:
            return 0
        seen.add(parent["span_id"])
        depth, parent = depth + 1, by_id.get(parent["parent_span_id"])
    return depth


@pytest.mark.parametrize("trace", ["t-1", "t-2", LONG_TRACE])
def test_a_span_is_as_deep_as_its_chain_of_causes(answers: Answers, rich: Config, trace: str) -> None:
    spans = rows_of(Lake(rich), f"FROM silver_invocations WHERE trace_id = '{trace}'")
    by_id = {str(span["span_id"]): span for span in spans}
    result = ask(answers, "run_spans", run=RUN, trace=trace)
    assert {row["span_id"]: row["depth"] for row in result} == {name: depth_of(by_id[name], by_id) for name in by_id}
    # Each stands below its parent, with nothing between them that is not of the same parent.
    last: dict[int, str] = {}
    for row in result:
        if row["depth"]:
            assert last[row["depth"] - 1] == row["parent_span_id"]
        last[row["depth"]] = row["span_id"]
    assert all(row["begin_ratio"] >= 0 and row["begin_ratio"] + row["width_ratio"] <= 1 + 1e-9 for row in result)


def test_the_waterfall_shows_the_longest_trace_and_counts_the_rest(client: TestClient) -> None:
    text = client.get(f"/panels/run/waterfall?{urlencode({'run': RUN})}").text
    assert len(re.findall(r"<tr[^>]* data-depth=", text)) == 200
    assert f"and {LONG_TRACE_SPANS - 200} more spans" in text


def test_a_path_of_a_span_is_text_and_leads_to_its_row(client: TestClient) -> None:
    text = client.get(f"/panels/run/waterfall?{urlencode({'run': RUN, 'trace': 't-1'})}").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(&#39;path&#39;)&lt;/script&gt;" in text
    assert [int(depth) for depth in re.findall(r'data-depth="(\d+)"', text)] == [0, 1, 2, 1, 0]
    assert text.count('class="failed"') == 1
    (href,) = re.findall(r'href="(/rows/run_spans\?[^"]*span=infer[^"]*)"', text)
    rows = client.get(href.replace("&amp;", "&").replace("/rows/", "/api/v1/")).json()["rows"]
    assert [(row["span_id"], row["path"], row["depth"]) for row in rows] == [("infer", HOSTILE_PATH, 1)]


def test_traces_are_counted_and_the_longest_comes_first(answers: Answers) -> None:
    result = ask(answers, "run_traces", run=RUN)
    assert [(row["trace_id"], row["spans"], row["response_seconds"]) for row in result] == [
        (LONG_TRACE, LONG_TRACE_SPANS, pytest.approx(34.9)),
        ("t-1", 5, pytest.approx(10)),
        ("t-2", 3, pytest.approx(5)),
    ]
    assert [row["level"] for row in result] == ["", "critical", ""]


def test_a_run_is_listed_with_what_it_has(answers: Answers) -> None:
    (row,) = ask(answers, "runs_collected")
    names = ("run_name", "nodes", "gpus", "stages", "host_samples", "spans", "events")
    assert tuple(row[name] for name in names) == (RUN, 3, 4, "cloud, edge", 3 * TICKS, LONG_TRACE_SPANS + 8, 3)
    assert [row["node"] for row in ask(answers, "run_nodes", run=RUN)] == sorted(NODES)
    assert ask(answers, "run_nodes", run="night") == []


@pytest.mark.parametrize(
    ("question", "table", "value", "peak"),
    [
        ("run_hosts", "silver_host_samples", "memory_used_bytes", "memory_total_bytes - memory_available_bytes"),
        ("run_links", "silver_link_samples", "errors_total", "rx_errors_total + coalesce(tx_errors_total, 0)"),
        ("run_gpus", "silver_gpu_samples", "temperature_celsius", "temperature_celsius"),
    ],
)
def test_series_are_thinned_and_lose_no_sample_and_no_peak(
    answers: Answers, rich: Config, question: str, table: str, value: str, peak: str
) -> None:
    points = ask(answers, question, run=RUN)
    assert 0 < len(points) <= 500
    (shown,) = rows_of(Lake(rich), f"SELECT count(*) AS samples, max({peak}) AS peak FROM {table}")
    assert sum(row["samples"] for row in points) == shown["samples"]
    assert max(row[value] for row in points) == shown["peak"]


@pytest.mark.slow
def test_the_mean_of_a_node_is_that_of_its_samples(answers: Answers, rich: Config) -> None:
    for row in ask(answers, "run_nodes", run=RUN):
        samples = rows_of(
            Lake(rich),
            f"SELECT cpu_busy_ratio AS busy, covers_seconds AS seconds FROM silver_host_samples "
            f"WHERE node_id = '{row['node']}' AND cpu_busy_ratio IS NOT NULL",
        )
        weights = [(float(str(one["busy"])), float(str(one["seconds"]))) for one in samples]
        mean = sum(busy * seconds for busy, seconds in weights) / sum(seconds for _, seconds in weights)
        assert row["cpu_busy_ratio"] == pytest.approx(mean)


def test_processes_are_summed_and_sorted_by_cpu(answers: Answers) -> None:
    result = ask(answers, "run_processes", run=RUN)
    assert [(row["command"], row["cpu_seconds"], row["mean_cores"]) for row in result] == [
        (command, pytest.approx(TICKS * 10.0 * cores), pytest.approx(cores))
        for command, cores in zip(COMMANDS.values(), (3, 2, 1, 0), strict=True)
    ]


def test_days_narrow_a_run(answers: Answers) -> None:
    assert ask(answers, "run_hosts", run=RUN, **{"from": "2026-03-02"}) == []
    assert len(ask(answers, "run_events", run=RUN, **{"from": "2026-03-01", "to": "2026-03-01"})) == 3
