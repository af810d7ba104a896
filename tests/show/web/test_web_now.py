"""The last moment under observation, a job that nobody knows, and the series behind an incident."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from conftest import rows_of
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.explanation import Evidence, Explanation, Ran, RanJob, Track
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.show.web.explained import Explained, explained
from gpulake.show.web.viewers import LOCAL
from hand_made import Attempt, write_trace
from show.web.asking import ask, client_of

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITED = replace(LOCAL, groups=frozenset({"ann"}))


@pytest.mark.slow
def test_free_gpus_are_those_that_no_running_job_holds(config: Config, tmp_path: Path) -> None:
    attempts = [
        Attempt("done", "ann", 0, 10, gpus=8),
        Attempt("part", "ann", 8, None, gpus=6, status="running"),
        Attempt("half", "bob", 9, None, gpus=0.5, status="running", machine="t"),
    ]
    Flow(config).refresh([write_trace(tmp_path / "raw", attempts)], None)
    client = client_of(config)
    machines = {row["gpu_type"]: row for row in ask(client, "now_machines")}
    assert {
        kind: (row["state"], row["held_gpus"], row["gpus"], row["free_gpus"]) for kind, row in machines.items()
    } == {
        "V100": ("partly held", 6.0, 16, 10.0),
        "T4": ("partly held", 0.5, 8, 7.5),
    }
    numbers = {row["label"]: row["value"] for row in ask(client, "now_numbers")}
    assert (numbers["free GPUs"], numbers["held GPUs"], numbers["running jobs"]) == (17.5, 6.5, 2)
    assert [(row["job_id"], row["gpus"]) for row in ask(client, "now_running")] == [("part", 6.0), ("half", 0.5)]


def test_pending_jobs_are_those_that_wait(client: TestClient, rich: Config) -> None:
    waiting = {row["job_id"] for row in rows_of(Lake(rich), "SELECT job_id FROM silver_jobs WHERE status = 'waiting'")}
    assert {row["job_id"] for row in ask(client, "now_pending")} == waiting


def test_an_unknown_job_is_not_found_on_a_page_with_navigation(client: TestClient) -> None:
    known, unknown = (client.get("/job", params={"job": job}) for job in ("80", "no such job"))
    assert (known.status_code, unknown.status_code) == (200, 404)
    assert '<nav aria-label="Pages">' in unknown.text
    nowhere = client.get("/nowhere")
    assert (nowhere.status_code, '<a href="/jobs">Jobs</a>' in nowhere.text) == (404, True)


def test_the_series_of_an_incident_is_drawn_with_what_was_expected() -> None:
    times = tuple(AT.replace(hour=hour) for hour in range(3))
    track = Track("°C", 1.0, (50.0, 93.0, None), (50.0, 50.0, 50.0), (40.0, 40.0, 40.0), (60.0, 60.0, 60.0))
    flags = (False, True, False)
    evidence = Evidence(
        "gpu01", "celsius", 3600, times, (track,), flags, (0.0, 0.9, 0.0), AT, AT, 1, 0.5, "limit", 9, AT, 5
    )
    ran = Ran("machine gpu01", AT, AT, (RanJob("tiger", "80", "ann", 8.0, 4.0, AT, AT, "failed"),))
    found = Explanation("i-1", {}, "warning", evidence, ran)
    shown = explained(lambda _: found, "i-1", LOCAL)
    assert shown is not None
    ((title, figure),) = shown.figures
    traces = {trace["name"]: trace for trace in figure["data"] if trace.get("name")}
    assert (title, figure["layout"]["xaxis"]["zone"]) == ("°C", "UTC")
    assert (traces["seen"]["y"], traces["expected"]["y"], traces["flagged"]["y"]) == (
        [50.0, 93.0, None],
        [60.0, 60.0, 60.0],
        [93.0],
    )
    assert [(job["job_id"], job["user_id"]) for job in shown.jobs] == [("80", "ann")]
    limited = explained(lambda _: found, "i-1", LIMITED)
    assert limited is not None
    assert limited.jobs == ()


def test_an_event_of_a_machine_is_not_called_a_comparison_of_days() -> None:
    found = Explanation("i-1", {"rank": 1, "kind": "node_fault"}, "critical", None, None)
    assert found.rests_on.startswith("it is an event that the machine reported")


def test_an_incident_without_a_series_says_why() -> None:
    found = Explanation("i-1", {"rank": 1}, "warning", None, None)
    shown = explained(lambda _: found, "i-1", LOCAL)
    assert shown == Explained([], f"There is no series to draw: {found.rests_on}.")

    def gone(_: str) -> Explanation:
        raise UsageError("no incident i-1", "")

    assert explained(gone, "i-1", LOCAL) == Explained([], "no incident i-1")
    assert explained(None, "i-1", LOCAL) is None
