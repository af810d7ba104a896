"""Scenes that look like those in which something is wrong, and in which nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detect.scenes import BEGIN, HOUR, SCENES, Tables, gpus, lake_of
from gpulake.core.types import Finding
from gpulake.detect.watchlist import _deduplicated, run_watches

Row = dict[str, Any]


def changed(name: str, table: str, change: Callable[[Row], Row]) -> Tables:
    """A scene with every row of a table changed."""
    scene = SCENES[name]("thing")
    return scene | {table: [change(dict(row)) for row in scene[table]]}


def hours_that_were_hardly_observed() -> Tables:
    return changed(
        "cluster_hours",
        "gold_cluster_util_hourly",
        lambda row: row | ({"coverage_ratio": 0.1} if row["gpu_util_ratio"] > 0.9 else {}),
    )


def a_day_that_was_hardly_observed() -> Tables:
    strange = (BEGIN + timedelta(days=26)).date()
    return changed(
        "cluster_days", "gold_cluster_util_daily", lambda row: row | {"is_poorly_covered": row["dt"] == strange}
    )


def a_day_on_which_one_machine_does_all_it_can() -> Tables:
    strange = (BEGIN + timedelta(days=26)).date()
    return changed(
        "cluster_days",
        "silver_machine_stretches",
        lambda row: row | ({"busy_gpus": 8.0 if row["machine_key"] == 0 else 2.0} if row["dt"] == strange else {}),
    )


def a_machine_gone_silent_of_which_nobody_knows_why() -> Tables:
    return changed("dead_machines", "silver_outages", lambda row: row | {"basis": "silent"})


def a_few_more_failures_than_usual_of_very_many_jobs() -> Tables:
    """Half of all jobs fail; then 62 of 100, for four hours."""
    return {
        "silver_jobs": [
            {
                "cluster_id": "thing",
                "submitted_at": BEGIN + hour * HOUR,
                "status": "failed" if place < (124 if 80 <= hour < 84 else 100) else "succeeded",
            }
            for hour in range(100)
            for place in range(200)
        ]
    }


def a_queue_that_is_short_although_longer_than_usual() -> Tables:
    return changed(
        "queue", "gold_demand_hourly", lambda row: row | {"waiting_gpu_hours": row["waiting_gpu_hours"] / 15}
    )


def a_queue_that_is_gone() -> Tables:
    return changed(
        "queue", "gold_demand_hourly", lambda row: row | {"waiting_gpu_hours": 62 - row["waiting_gpu_hours"]}
    )


def a_user_with_empty_jobs_who_always_has_many() -> Tables:
    """Every other empty job was this user's; now nearly all of a crowd are."""
    jobs: list[Row] = []
    held: list[Row] = []
    for hour in range(200):
        users = ["thing", f"user {hour % 9}", *(["thing"] * 20 if 150 <= hour < 160 else [])]
        for user in users:
            held.append({"cluster_id": "c", "job_key": len(jobs), "bucket": "idle", "held_from": BEGIN + hour * HOUR})
            jobs.append({"cluster_id": "c", "job_key": len(jobs), "user_id": user})
    return {"silver_jobs": jobs, "silver_holdings": held}


def some_errors_that_were_corrected() -> Tables:
    return changed(
        "gpu_errors",
        "silver_gpu_samples",
        lambda row: row | {"ecc_corrected_total": min(5, row["ecc_uncorrected_total"]), "ecc_uncorrected_total": 0},
    )


def a_gpu_that_is_a_little_warmer() -> Tables:
    return gpus("thing", "temperature_celsius", 50.0, 56.0)


def a_warm_gpu_that_rests() -> Tables:
    return changed("hot_gpus", "silver_gpu_samples", lambda row: row | {"busy_ratio": float(row["gpu_index"] != 2)})


@pytest.mark.parametrize(
    "scene",
    [
        hours_that_were_hardly_observed,
        a_day_that_was_hardly_observed,
        a_day_on_which_one_machine_does_all_it_can,
        a_machine_gone_silent_of_which_nobody_knows_why,
        a_few_more_failures_than_usual_of_very_many_jobs,
        a_queue_that_is_short_although_longer_than_usual,
        a_queue_that_is_gone,
        some_errors_that_were_corrected,
        a_gpu_that_is_a_little_warmer,
        a_warm_gpu_that_rests,
    ],
    ids=lambda scene: scene.__name__,
)
def test_nothing_is_found_in(scene: Callable[[], Tables]) -> None:
    with lake_of(scene()) as read:
        assert run_watches(read) == []


DAY = Finding(
    *("unusual_utilisation", "c", "a day", "", 0.5, "ratio"),
    severity="warning",
    finding_id="f-1",
    cluster_id="c",
    began_at=BEGIN,
    ended_at=BEGIN + timedelta(days=1),
    score=0.6,
)
HOURS = replace(
    DAY,
    headline="some hours",
    severity="info",
    finding_id="f-2",
    began_at=BEGIN + 20 * HOUR,
    ended_at=BEGIN + 30 * HOUR,
    score=0.9,
)


def test_findings_of_two_watches_at_the_same_time_are_one_with_the_worst_text() -> None:
    both = replace(DAY, ended_at=HOURS.ended_at)
    assert list(_deduplicated([HOURS, DAY])) == [both]
    # The words of what came later, under the name of what came first.
    worse = replace(HOURS, severity="critical")
    assert list(_deduplicated([DAY, worse])) == [replace(worse, finding_id="f-1", began_at=BEGIN)]


def test_findings_of_another_time_or_cluster_stay_separate() -> None:
    later = replace(HOURS, began_at=BEGIN + 25 * HOUR)
    elsewhere = replace(HOURS, cluster_id="d")
    assert list(_deduplicated([DAY, later])) == [DAY, later]
    assert list(_deduplicated([DAY, elsewhere])) == [DAY, elsewhere]


def test_of_a_user_who_always_has_empty_jobs_only_far_more_than_that_are_found() -> None:
    """Nearly all of the empty jobs were this user's before: their number tells, and not their share."""
    with lake_of(a_user_with_empty_jobs_who_always_has_many()) as read:
        assert [(finding.watch, finding.value) for finding in run_watches(read)] == [("empty_jobs", 224.0)]
