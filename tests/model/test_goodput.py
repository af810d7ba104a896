"""Training runs in silver and gold: against a naive reckoning on random runs, and from files to the mart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import rows_of
from examples import cases
from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake.engine import connect, create_table
from gpulake.lake.types import engine_types
from gpulake.model.build import write_settings
from gpulake.model.plan import shipped_plan
from gpulake.model.pruning import pruned
from model.goodput_by_hand import PARTS, Story, gpu_hours_of, held_seconds, parts_of

BEGIN = 1_790_000_000
GIVEN = ("silver_machines", "silver_holdings", "silver_jobs", "silver_pod_runs", "silver_pod_owners")
MODELS = ("silver_training_runs", "silver_training_steps", "gold_run_goodput")


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGIN + seconds, UTC)


def logged_rows(place: int, story: Story) -> list[dict[str, Any]]:
    run = {"source": "wandb", "run": f"r{place}", "job": f"j{place}" if story.held else ""}
    values = [("loss", "loss", step, moment) for step, moment in story.logged]
    values += [("eval/loss", "evaluation", -1, moment) for moment in story.evaluated]
    return [
        {**run, "metric": metric, "kind": kind, "step": step, "logged_at": at(moment).isoformat(), "value": 1.0}
        for metric, kind, step, moment in values
    ]


def told(stories: Sequence[Story]) -> dict[str, list[dict[str, Any]]]:
    """The tables of these runs, by the plan's own SQL on a bench of its own."""
    jobs = [(place, story) for place, story in enumerate(stories) if story.held]
    landed = {
        "bronze_training_metrics": [row for place, story in enumerate(stories) for row in logged_rows(place, story)],
        "bronze_checkpoints": [
            {"cluster": "c", "job": f"j{place}", "saved_at": at(moment).isoformat()}
            for place, story in jobs
            for moment in story.saved
        ],
    }
    known = {
        "silver_jobs": [f"{_key(place)}, 'c', 'j{place}'" for place, _ in jobs],
        "silver_holdings": [
            f"{_key(place)}, {story.gpus}, {end - begin}, to_timestamp({BEGIN + begin}), to_timestamp({BEGIN + end})"
            for place, story in jobs
            for begin, end in story.held
        ],
    }
    columns = {
        "silver_jobs": "job_key, cluster_id, job_id",
        "silver_holdings": "job_key, gpus, held_seconds, held_from, held_until",
    }
    with connect("1GB", 1, Path("spill")) as bench:
        bench.execute("ATTACH ':memory:' AS landed")
        bench.execute("ATTACH ':memory:' AS lake")
        for table in bronze_tables().values():
            create_table(bench, f"landed.main.{table.name}", engine_types(table), landed.get(table.name, []))
        write_settings(bench, Config(threads=1))
        plan = shipped_plan()
        for model in plan.models:
            if model.name in GIVEN:
                create_table(bench, f"lake.main.{model.name}", {each.name: each.type for each in model.columns}, [])
        for model_name, rows in known.items():
            for row in rows:
                bench.execute(f"INSERT INTO lake.main.{model_name} ({columns[model_name]}) SELECT {row}")
        found = {}
        for model in plan.models:
            if model.name in MODELS:
                sql = pruned(model.sql, plan.steps, bronze_tables().keys() - landed.keys())
                bench.execute(f"CREATE TABLE lake.main.{model.name} AS {sql}")
                made = bench.execute(f"FROM lake.main.{model.name}").to_arrow_table()
                found[model.name] = made.to_pylist()
    return found


def _key(place: int) -> str:
    return f"cast(hash('c', 'j{place}') >> 1 as bigint)"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A run that logs every few steps, stalls, evaluates, saves and is restarted from an earlier step."""
    step, moment = draw(st.integers(0, 50)), float(draw(st.integers(0, 600)))
    logged = [(step, moment)]
    evaluated, restarts = [], []
    for _ in range(draw(st.integers(0, 25))):
        event = draw(st.sampled_from(["go", "go", "go", "go", "stall", "evaluate", "restart"]))
        ahead = draw(st.integers(1, 3))
        took = ahead * draw(st.sampled_from([8.0, 10.0, 10.0, 12.5]))
        if event == "restart":
            step, took = step - draw(st.integers(0, step - min(one for one, _ in logged))), took + 300
            restarts.append((moment, moment + took))
        else:
            step += ahead
            took += draw(st.sampled_from([0.0, 500.0])) if event == "stall" else 0.0
        if event == "evaluate":
            evaluated.append(moment + took / 2)
            took += 40.0
        moment += took
        logged.append((step, moment))
    saved = draw(st.lists(st.integers(0, int(moment) + 1), max_size=3))
    held: list[tuple[float, float]] = []
    if draw(st.booleans()):
        # Some restarts are attempts of their own: between them the job holds nothing.
        cuts = [(begin + 50, end - 100) for begin, end in restarts if draw(st.booleans())]
        edges = [-float(draw(st.integers(0, 900))), *(edge for cut in cuts for edge in cut), moment + 77.0]
        held = list(zip(edges[::2], edges[1::2], strict=True))
    return Story(logged, evaluated, [float(one) for one in saved], held, draw(st.integers(1, 64)))


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(stories(), min_size=1, max_size=4))
def test_every_part_of_a_run_is_what_its_document_says(given: list[Story]) -> None:
    found = told(given)["gold_run_goodput"]
    for place, story in enumerate(given):
        rows = {row["part"]: row for row in found if row["run_id"] == f"r{place}"}
        expected = parts_of(story)
        assert set(rows) == set(expected)
        assert {part: row["seconds"] for part, row in rows.items()} == pytest.approx(expected, abs=1e-4)
        hours = gpu_hours_of(story, expected)
        assert {part: row["gpu_hours"] for part, row in rows.items()} == pytest.approx(hours, abs=1e-4)
        if story.held and expected:
            assert sum(expected.values()) == pytest.approx(held_seconds(story.held), abs=1e-6)
            assert sum(row["time_ratio"] for row in rows.values()) == pytest.approx(1)


def test_a_run_without_times_has_its_steps_and_no_goodput(tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    folder = tmp_path / "sft" / "checkpoint-20"
    folder.mkdir(parents=True)
    log = [{"loss": 2.5, "step": 10}, {"loss": 0.0, "epoch": 1.0, "step": 20}, {"eval_loss": 2.0, "step": 20}]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    flow.land([folder], named={"job": "7"})
    flow.build(list(MODELS))
    columns = "run_id, job_id, job_key, began_at, first_step, last_step, steps"
    assert rows_of(flow.lake, f"SELECT {columns} FROM silver_training_runs") == [
        dict(
            zip(columns.split(", "), ("sft", "7", None, None, 10, 20, 2), strict=True),
        )
    ]
    steps = rows_of(flow.lake, "SELECT step, loss, epoch, took_seconds FROM silver_training_steps ORDER BY step")
    assert [tuple(row.values()) for row in steps] == [(10, 2.5, None, None), (20, 0.0, 1.0, None)]
    assert rows_of(flow.lake, "FROM gold_run_goodput") == []


def test_exports_that_overlap_count_once(tmp_path: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    lines = [json.dumps({"_step": n, "_timestamp": BEGIN + 10 * n, "loss": 1.0 / (n + 1)}) for n in range(6)]
    for day, upto in (("monday", 4), ("tuesday", 6)):
        (tmp_path / day / "night1").mkdir(parents=True)
        (tmp_path / day / "night1" / "history.jsonl").write_text("\n".join(lines[:upto]) + "\n")
    flow.land([tmp_path / "monday"])
    flow.build()
    flow.land([tmp_path / "tuesday"])
    result = flow.build()
    assert result.touched is not None, "one more export extends the last build"
    (run,) = rows_of(flow.lake, "SELECT run_id, steps, last_step FROM silver_training_runs")
    assert run == {"run_id": "night1", "steps": 6, "last_step": 5}
    parts = {row["part"]: row["seconds"] for row in rows_of(flow.lake, "FROM gold_run_goodput")}
    assert parts == {part: 50.0 if part == "productive" else 0.0 for part in PARTS}


@pytest.mark.real
def test_runs_of_mlperf_go_forward_and_their_parts_are_their_time(tmp_path: Path, real_data: Path) -> None:
    flow = Flow(Config(lake=tmp_path / "lake", threads=1))
    flow.land([real_data / "mlperf_logs" / "logs"])
    flow.build(list(MODELS))
    totals: list[dict[str, Any]] = rows_of(flow.lake, TOTALS)
    assert len(totals) >= 60
    assert all(row["seconds"] == pytest.approx(row["wall"], abs=1e-3) for row in totals)
    # These runs went from begin to end: none of their counters goes back.
    assert {row["restart"] for row in totals} == {0.0}
    (mask,) = [
        row for row in totals if row["run_id"].endswith("v3.1__ASUSTeK__results__ESC-N8-E11__maskrcnn__result_0")
    ]
    assert 0.5 < mask["productive"] < 1.0


TOTALS = """
SELECT run_id, sum(seconds) AS seconds, epoch(max(ended_at) - min(began_at)) AS wall,
    sum(seconds) FILTER (part IN ('restart', 'repeated')) AS restart,
    sum(time_ratio) FILTER (part = 'productive') AS productive
FROM gold_run_goodput GROUP BY run_id
"""
