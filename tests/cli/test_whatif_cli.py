"""gpulake whatif on a lake: tables, JSON, refusals and rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import InputError
from gpulake.lake import Lake

pytestmark = pytest.mark.slow


def _run(config: Config, *arguments: str) -> str:
    result = CliRunner().invoke(root, ["whatif", *arguments, "--lake", str(config.lake)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_backtest_says_what_it_found_and_leaves_rows(built_lake: Config) -> None:
    found = json.loads(_run(built_lake, "backtest", "--json"))
    assert found["cluster"] == "synth"
    assert found["scores"][0]["grouping"] == "all"
    assert found["is_believed"] == (not found["refusals"])
    rows = Lake(built_lake).journal("sim_backtest")
    assert [row["grouping"] for row in rows] == [score["grouping"] for score in found["scores"]]


def test_scenarios_are_compared_with_the_past(built_lake: Config, tmp_path: Path) -> None:
    plot = tmp_path / "plans.html"
    found = json.loads(
        _run(built_lake, "--gpus", "+8:T4", "--weeks", "2", "--anyway", "--json", "--plot", str(plot), "--save-jobs")
    )
    before, after = found["scenarios"]
    assert [before["scenario"], after["scenario"]] == ["as it is", "what if"]
    assert after["wait_seconds"][1] <= before["wait_seconds"][1]
    assert "Arrivals do not react" in found["note"]
    assert "waits_by_size" in plot.read_text()
    lake = Lake(built_lake)
    assert [row["scenario"] for row in lake.journal("sim_runs")] == ["as it is", "what if"]
    assert len(lake.journal("sim_jobs")) == before["runs"] + after["runs"]


def test_where_the_backtest_refuses_so_does_the_answer(built_lake: Config) -> None:
    """The generated trace carries published waits, which no queue made."""
    with pytest.raises(InputError, match="cannot say for synth"):
        _run(built_lake, "--gpus", "+8:T4")


def test_each_finding_has_a_price_or_a_reason_and_leaves_a_row(built_lake: Config) -> None:
    found = json.loads(_run(built_lake, "price", "--anyway", "--json"))
    assert found
    assert all((one["saved_gpu_hours"] is None) == bool(one["reason"]) for one in found)
    assert [row["words"] for row in Lake(built_lake).journal("sim_prices")] == [one["words"] for one in found]
    assert [row["step"] for row in Lake(built_lake).journal("runs")][-1] == "price"


def test_where_the_backtest_refuses_nothing_has_a_price(built_lake: Config) -> None:
    found = json.loads(_run(built_lake, "price", "--json"))
    assert {one["words"].split(":")[1] for one in found} == {" cannot say for synth"}
