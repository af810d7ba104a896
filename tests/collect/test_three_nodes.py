"""One request across three nodes is one trace on all of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collect.three_nodes import Node, three_nodes

SERVICE = str(Path(__file__).with_name("chain_service.py"))
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"


@pytest.fixture(params=["namespaces", "loopback"])
def nodes(request: pytest.FixtureRequest) -> Iterator[list[Node]]:
    with three_nodes(is_isolated=request.param == "namespaces") as found:
        if request.param == "namespaces" and not found[0].namespace:
            pytest.skip("this user may not make network namespaces")
        yield found


def started(nodes: list[Node], base: Path) -> str:
    """A service on each node, each calling the next one; the address of the first."""
    url = ""
    for node in reversed(nodes):
        folder = base / "run1" / node.name
        service = node.start(node.python(SERVICE, node.address, str(folder), node.name, *([url] if url else [])))
        assert service.stdout is not None
        url = f"http://{node.address}:{int(service.stdout.readline())}/work"
    return url


def stopped(nodes: list[Node]) -> None:
    """Each service ends by itself, and leaves all it knows."""
    for process in (process for node in nodes for process in node.processes):
        process.communicate(timeout=60)
        assert process.returncode == 0


def rows(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(text) for path in sorted(folder.glob(pattern)) for text in path.read_text().splitlines()]


@pytest.mark.slow
def test_one_request_across_three_nodes_is_one_trace(nodes: list[Node], tmp_path: Path) -> None:
    url = started(nodes, tmp_path)
    answer = nodes[0].run(nodes[0].python("-c", ASK, url)).stdout
    assert answer == "node1 node2 node3\n"
    stopped(nodes)

    invocations = [rows(tmp_path / "run1" / node.name, "events.*.jsonl") for node in nodes]
    assert [len(of_node) for of_node in invocations] == [1, 1, 1]
    first, second, third = (of_node[0] for of_node in invocations)
    assert first["trace_id"] == second["trace_id"] == third["trace_id"]
    parents = [one["parent_id"] for one in (first, second, third)]
    assert parents == [None, first["span_id"], second["span_id"]]
    assert [one["node"] for one in (first, second, third)] == ["node1", "node2", "node3"]
    assert first["ts_start"] <= second["ts_start"] <= third["ts_start"]
    assert third["ts_end"] <= second["ts_end"] <= first["ts_end"]
    for node in nodes:
        events = rows(tmp_path / "run1" / node.name, "placement_events.jsonl")
        assert [(one["event"], one["node_id"]) for one in events] == [("start", node.name), ("stop", node.name)]


@pytest.mark.slow
def test_three_nodes_are_collected_and_merged_into_one_run(nodes: list[Node], tmp_path: Path) -> None:
    base = str(tmp_path)
    for node, peer in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        words = ("--run-id", "run1", "--node-id", node.name, "--peer", peer.address, "--match", "chain_service")
        node.run(node.gpulake("collect", "start", "--dir", base, *words, "--interval", "100ms", "--duration", "2m"))
    url = started(nodes, tmp_path)
    nodes[0].run(nodes[0].python("-c", ASK, url))
    stopped(nodes)
    for node in nodes:
        node.run(node.gpulake("collect", "stop", "--dir", base, "--run-id", "run1", "--node-id", node.name))
        node.run(node.gpulake("collect", "parse", str(tmp_path / "run1" / node.name)))
    runs = [str(tmp_path / "run1" / node.name) for node in nodes]
    nodes[0].run(nodes[0].gpulake("collect", "merge", *runs, "--out", str(tmp_path / "merged")))

    merged = tmp_path / "merged"
    names = [node.name for node in nodes]
    invocations = rows(merged, "invocations.jsonl")
    assert len({one["trace_id"] for one in invocations}) == 1
    assert sorted(one["node"] for one in invocations) == names
    assert sorted(one["node_id"] for one in json.loads((merged / "nodes.json").read_text())) == names
    sampled = {(one["node"], one["proc_id"]) for one in rows(merged, "proc_metrics.jsonl")}
    assert {(one["node"], one["proc_id"]) for one in invocations} <= sampled
    times = [one["ts_ms"] for one in rows(merged, "host_metrics.jsonl")]
    assert times == sorted(times)
    report = json.loads((merged / "merge_report.json").read_text())
    assert report["conflicts"] == {}


def test_nodes_reach_each_other_and_leave_nothing_behind() -> None:
    with three_nodes() as nodes:
        reported = nodes[1].run(nodes[1].python("-c", "print('here')")).stdout
        assert reported == "here\n"
        spaces = [node.namespace for node in nodes if node.namespace]
    if spaces:
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        assert not any(name in left for name in spaces)
