"""The page of simulations shows the last of each cluster, in its order, and the price of an incident."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpulake.core.config import Config
from gpulake.lake import Lake
from show.web.asking import ask, client_of

AT = datetime(2026, 3, 1, tzinfo=UTC)


def _run(run_id: str, scenario: str, minutes: int, p90: float) -> dict[str, object]:
    return {
        "run_id": run_id, "simulated_at": AT + timedelta(minutes=minutes), "cluster_id": "synth", "scenario": scenario,
        "policy": "easy", "changes": {"gpus": "+8"}, "p90_wait_seconds": p90, "held_gpu_hours": 5.0,
    }  # fmt: skip


def _price(words: str, minutes: int) -> dict[str, object]:
    return {
        "run_id": "p", "priced_at": AT + timedelta(minutes=minutes), "cluster_id": "synth", "of": "incident",
        "subject_id": "i-1", "kind": "failure", "subject": "log", "saved_gpu_hours": 2.0, "words": words,
    }  # fmt: skip


def test_the_last_scenarios_of_a_cluster_are_shown_in_their_order(built_lake: Config) -> None:
    runs = [_run("a", "as it is", 0, 9.0), _run("b", "as it is", 2, 8.0), _run("b", "more", 3, 1.0)]
    Lake(built_lake).append("sim_runs", runs)
    rows = ask(client_of(built_lake), "scenarios")
    assert [(row["scenario"], row["p90_wait_seconds"], row["changes"]) for row in rows] == [
        ("as it is", 8.0, '{"gpus":"+8"}'),
        ("more", 1.0, '{"gpus":"+8"}'),
    ]


def test_an_incident_has_the_price_of_the_last_simulation(built_lake: Config) -> None:
    Lake(built_lake).append("sim_prices", [_price("old", 0), _price("it would have saved 2.0 GPU-hours", 5)])
    rows = ask(client_of(built_lake), "incident_price", incident="i-1")
    assert [(row["headline"], row["level"]) for row in rows] == [("it would have saved 2.0 GPU-hours", "warning")]
    assert [row["words"] for row in ask(client_of(built_lake), "prices")] == ["it would have saved 2.0 GPU-hours"]
