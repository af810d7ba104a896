"""A job beside its own past and its peers, counted again in plain Python."""

from __future__ import annotations

import statistics
from typing import Any

from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.lake import Lake
from show.web.asking import ask

FAILED = ("failed", "timeout", "node_fail")


def test_a_job_is_compared_with_earlier_jobs_of_its_group_and_its_user(client: TestClient, rich: Config) -> None:
    with Lake(rich).open().reading() as reader:
        jobs = reader.rows("SELECT * FROM silver_jobs WHERE cluster_id = 'synth' AND submitted_at IS NOT NULL")
    mine = max(jobs, key=lambda job: (job["submitted_at"], job["job_id"]))
    shown = {row["place"]: row for row in ask(client, "job_peers", job=mine["job_id"], cluster="synth")}
    assert (shown[1]["whose"], shown[1]["jobs"]) == ("this job", 1)
    for place, column in ((2, "group_id"), (3, "user_id")):
        earlier = [j for j in jobs if j[column] == mine[column] and j["submitted_at"] < mine["submitted_at"]]
        assert shown.get(place, {}).get("jobs", 0) == len(earlier)
        if earlier:
            row = shown[place]
            assert row["failed_ratio"] == sum(job["status"] in FAILED for job in earlier) / len(earlier)
            assert row["wait_seconds"] == _median([job["launch_wait_seconds"] for job in earlier])


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
