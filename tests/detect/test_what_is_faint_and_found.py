"""What is half as strong as it might be is found all the same, and the right one is named."""

from __future__ import annotations

from typing import Any

import pytest

from detect.scenes import BEGIN, DAY, HOUR, SCENES, Row, Tables, lake_of, noise
from gpulake.core.types import Finding
from gpulake.detect.watchlist import run_watches


def found_in(tables: Any) -> list[Finding]:
    with lake_of(tables) as read:
        return run_watches(read)


def bursting(share: float) -> Tables:
    """Eight jobs an hour, one of which fails; from the 200th hour on, for five hours, so many of them."""
    rows: list[Row] = []
    for hour in range(240):
        for place in range(8):
            is_failed = place < 8 * share if 200 <= hour < 205 else place == hour % 8
            status = "failed" if is_failed else "succeeded"
            rows.append({"cluster_id": "c", "submitted_at": BEGIN + hour * HOUR, "status": status})
    return {"silver_jobs": rows}


def test_half_of_the_jobs_of_a_few_hours_are_a_burst_from_its_first_hour_on() -> None:
    (found,) = found_in(bursting(0.5))
    assert (found.kind, found.began_at) == ("failure_burst", BEGIN + 200 * HOUR)
    assert found.headline == (
        "50% of the jobs submitted to c from 2026-01-13 08:00 UTC on failed, instead of the usual 13%"
    )


def busier(times: dict[int, float]) -> Tables:
    """Forty machines that do as they always do, but for some days."""
    scene = SCENES["cluster_days"]("c")
    chances = iter(noise(40 * 30, seed=1))
    machines = [{"cluster_id": "c", "machine_key": key, "machine_id": f"m{key}", "gpus": 8} for key in range(40)]
    stretches = [
        {
            "cluster_id": "c",
            "machine_key": key,
            "dt": (BEGIN + place * DAY).date(),
            "started_at": BEGIN + place * DAY,
            "ended_at": BEGIN + (place + 1) * DAY,
            "seconds": 86_400.0,
            "busy_gpus": (1.0 + key % 4) * times.get(place, 1.0) * (1.0 + 0.2 * next(chances)),
        }
        for place in range(30)
        for key in range(40)
    ]
    return scene | {"silver_machine_stretches": stretches, "silver_machines": machines}


def test_a_weekend_is_found_of_which_neither_day_would_tell() -> None:
    assert found_in(busier({26: 1.2})) == []
    (found,) = found_in(busier({25: 1.2, 26: 1.2}))
    assert (found.kind, found.subject, found.unit) == ("unusual_utilisation", "c", "times")
    assert found.value == pytest.approx(1.2, abs=0.04)
    assert found.ended_at == BEGIN + 27 * DAY


def test_a_day_of_idle_machines_is_a_value() -> None:
    (found,) = found_in(busier({26: 0.0}))
    assert found.value == pytest.approx(0.5, abs=0.03)


def slow(times: float) -> Tables:
    """Machine 0 takes longer from the tenth day on; every other job is a gang that runs on machine 1 as well."""
    jobs: list[Row] = []
    runs: list[Row] = []
    drawn = iter(noise(4 * 18 * 10))
    for day in range(18):
        for group in range(10):
            for machine in range(4):
                key = len(jobs)
                is_slow = machine == 0 and day >= 12
                took = 600 * (group + 1) * (1.0 + 0.2 * next(drawn)) * (times if is_slow else 1.0)
                jobs.append({"cluster_id": "c", "job_key": key, "group_id": f"group {group}"})
                run = {"job_key": key, "task_key": key, "task_name": "worker", "status": "succeeded"}
                run |= {"started_at": BEGIN + day * DAY + group * HOUR, "run_seconds": took}
                runs += [run | {"machine_key": on} for on in ((0, 1) if machine == 0 and group % 2 else (machine,))]
    machines = [{"cluster_id": "c", "machine_key": key, "machine_id": f"m{key}"} for key in range(4)]
    return {"silver_jobs": jobs, "silver_instances": runs, "silver_machines": machines}


def test_a_slow_machine_is_distinguished_from_one_whose_gangs_wait_for_it() -> None:
    (found,) = found_in(slow(1.75))
    assert (found.kind, found.subject) == ("slow_machine", "m0")
    assert found.value == pytest.approx(1.75, abs=0.15)


def test_a_slow_machine_that_is_mended_was_slow_until_then() -> None:
    tables = slow(2.0)
    for row in tables["silver_instances"]:
        if row["started_at"] >= BEGIN + 15 * DAY and row["job_key"] % 4 == 0:
            row["run_seconds"] /= 2.0
    (found,) = found_in(tables)
    assert found.value == pytest.approx(2.0, abs=0.15)
    assert found.ended_at is not None
    assert abs(found.ended_at - (BEGIN + 15 * DAY)) < DAY
