"""Dashboards for Grafana: importable, and about metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.formats.names import table
from gpulake.show.grafana import dashboards, write_dashboards
from gpulake.show.web.gauges import GAUGES

SERVER = (
    "gpulake_serve_requests_total",
    "gpulake_serve_request_duration_seconds_bucket",
    "process_resident_memory_bytes",
)
UNITS = {"none", "percent", "percentunit", "s", "bytes", "mbytes", "watt", "celsius", "Bps", "reqps"}
METRIC = re.compile(r"\b((?:gpulake|DCGM|node|process)_\w+)")


@pytest.fixture(params=sorted(dashboards()))
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(dashboards()[request.param])
    return result


def test_every_metric_that_a_panel_asks_for_exists(dashboard: dict[str, Any]) -> None:
    lake = {gauge.name for gauge in GAUGES} | set(SERVER)
    nodes = {name.name for names in table("dcgm").subjects.values() for name in names}
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["definition"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    named = {name for text in asked for name in METRIC.findall(text)}
    assert len(named) > 10
    assert named - (nodes if dashboard["uid"] == "gpulake-nodes" else lake) == set()


def test_it_can_be_imported_anywhere(dashboard: dict[str, Any]) -> None:
    assert dashboard["id"] is None
    assert dashboard["schemaVersion"] >= 36
    assert [one["pluginId"] for one in dashboard["__inputs"]] == ["prometheus"]
    selected = {"type": "prometheus", "uid": "${datasource}"}
    for panel in dashboard["panels"]:
        assert "id" not in panel
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["datasource"] == selected
        assert [target["datasource"] for target in panel["targets"]] == [selected] * len(panel["targets"])
        assert [target["refId"] for target in panel["targets"]] == [chr(65 + at) for at in range(len(panel["targets"]))]
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$(\w+)", json.dumps([panel["targets"] for panel in dashboard["panels"]])))
    assert used - known == {"__rate_interval"}


def test_no_two_panels_lie_on_each_other(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_the_command_writes_them_and_overwrites_nothing_of_others(tmp_path: Path) -> None:
    out = tmp_path / "boards"
    for _ in range(2):
        done = CliRunner().invoke(root, ["export", "grafana", "--out", str(out)])
        assert (done.exit_code, done.output.split()) == (
            0,
            [str(out / "gpulake-lake.json"), str(out / "gpulake-nodes.json")],
        )
    assert [path.read_text() for path in write_dashboards(out)] == list(dashboards().values())
    (out / "gpulake-lake.json").write_text("mine")
    done = CliRunner().invoke(root, ["export", "grafana", "--out", str(out)])
    assert done.exit_code != 0
    assert (out / "gpulake-lake.json").read_text() == "mine"
