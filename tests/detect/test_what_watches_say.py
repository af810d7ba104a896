"""What a person reads of a finding: what happened, whether it is over, and nothing where nothing is wrong."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detect.scenes import BEGIN, SCENES, lake_of, sample
from examples import cases
from gpulake.core.ledger import BUCKETS, LOST
from gpulake.core.types import Finding
from gpulake.detect.findings import SQL, _flagged_days, _idle_holders, _ledger
from gpulake.detect.watchlist import run_watches
from gpulake.lake.limits import CLUSTER_KINDS

TOTAL = int(8e10)


def found_in(tables: Any) -> list[Finding]:
    with lake_of(tables) as read:
        return run_watches(read)


def memory(ratios: list[float], step: float) -> list[Finding]:
    """Findings of a GPU with such memory, a sample each so many seconds."""
    rows = [
        sample("n", place * step)
        | {"covers_seconds": step, "memory_used_bytes": int(ratio * TOTAL), "memory_total_bytes": TOTAL}
        for place, ratio in enumerate(ratios)
    ]
    return found_in({"silver_gpu_samples": rows})


@pytest.mark.slow
@given(
    load_seconds=st.integers(2, 900),
    level=st.floats(0.5, 0.95),
    step=st.sampled_from([2.0, 10.0, 60.0]),
)
@settings(max_examples=cases(25))
def test_a_model_that_is_loaded_is_no_leak(load_seconds: int, level: float, step: float) -> None:
    count = int(7200 / step)
    ratios = [
        0.01 + (level - 0.01) * float(np.clip((place * step - 1800) / load_seconds, 0, 1)) for place in range(count)
    ]
    assert memory(ratios, step) == []


def test_a_model_that_is_being_loaded_is_no_leak_yet() -> None:
    assert memory([0.01] * 1600 + [0.01 + 0.024 * minute for minute in range(36)], 60.0) == []


def leaking(minutes: int) -> list[float]:
    """Half an hour of steady work; then a percent more every minute."""
    return [0.3] * 30 + [0.3 + 0.01 * minute for minute in range(minutes)]


def test_a_leak_that_goes_on_is_foretold() -> None:
    (found,) = memory([0.3] * 1600 + leaking(60), 60.0)
    assert found.headline == "memory of n GPU 0 is 89% full, and will be full at 2026-01-06 04:20 UTC"


def test_a_leak_that_ended_is_reported_as_past() -> None:
    (found,) = memory([0.3] * 1600 + leaking(60) + [0.3] * 100, 60.0)
    assert found.headline == (
        "memory of n GPU 0 was 89% full at 2026-01-06 04:09 UTC; it would have been full at 2026-01-06 04:20 UTC"
    )
    # The line still holds at the first point after it.
    assert found.ended_at == BEGIN + timedelta(minutes=1691)


def test_what_goes_on_has_a_begin_and_what_is_over_an_end_as_well() -> None:
    scene = SCENES["runaway_users"]("u")
    (over,) = found_in(scene)
    assert over.headline.startswith("user u submitted 50 jobs from 2026-01-11 06:00 UTC to 2026-01-11 16:00 UTC that")
    assert over.ended_at == BEGIN + timedelta(hours=160)
    soon = [row for row in scene["silver_holdings"] if row["held_from"] < BEGIN + timedelta(hours=158)]
    (going,) = found_in(scene | {"silver_holdings": soon})
    assert going.headline == (
        "user u submitted 40 jobs since 2026-01-11 06:00 UTC that held GPUs and used none, instead of the usual 0"
    )
    assert going.finding_id == over.finding_id


def test_one_dead_machine_is_written_in_the_singular() -> None:
    scene = SCENES["dead_machines"]("m")
    (both,) = found_in(scene)
    assert both.headline == (
        "2 machines (m0, m1) lost all they ran at 2026-01-09 04:50 UTC and stood still for up to 19 hours"
    )
    (one,) = found_in(scene | {"silver_outages": [row for row in scene["silver_outages"] if row["machine_key"] != 1]})
    assert one.headline == "machine m0 lost all it ran at 2026-01-09 04:50 UTC and stood still for 19 hours"
    assert one.remedy == "look at its power, network and cooling; drain it until it is tested"
    assert one.node == "m0"


def test_a_day_is_held_against_others_of_its_weekday() -> None:
    (found,) = found_in(SCENES["cluster_days"]("c"))
    assert found.began_at is not None
    assert f"as they usually are on a {found.began_at:%A}" in found.headline


@pytest.mark.parametrize("name", ["cluster_days", "cluster_hours", "failures", "queue"])
def test_a_limited_viewer_sees_findings_about_the_cluster(name: str) -> None:
    (found,) = found_in(SCENES[name]("c"))
    assert (found.subject, found.node, found.job_id) == ("c", None, None)
    assert found.kind in CLUSTER_KINDS


def cluster_row(hours: dict[str, float], **facts: Any) -> dict[str, Any]:
    """A cluster of which nothing that was lost is known to be, and nothing inferred, unless the facts say so."""
    every = dict.fromkeys(BUCKETS, 0.0) | hours
    return {
        "cluster_id": "c",
        "observed_from": BEGIN,
        "observed_until": BEGIN + timedelta(days=7),
        "is_generated": False,
        "unknown_demand_ratio": 0.0,
        "observed_basis": "events",
        "first_ended_at": BEGIN,
        "hours": list(every.items()),
        "at_least": [(bucket, 0.0 if bucket in LOST else value) for bucket, value in every.items()],
        "inferred": [(bucket, 0.0) for bucket in every],
        **facts,
    }


UNSEEN = {"failed": 10.0, "unobserved": 50.0, "unallocated": 940.0}


def test_of_what_no_sensor_saw_nothing_is_said_to_be_unused() -> None:
    (unseen,) = _ledger([cluster_row(UNSEEN)])
    assert unseen.headline == (
        "6.0% of the 1,000 GPU-hours of c from 2026-01-05 00:00 to 2026-01-12 00:00 UTC were held, "
        "and no sensor saw what they did"
    )
    (seen,) = _ledger([cluster_row(UNSEEN | {"idle": 30.0, "used": 10.0})])
    assert seen.headline.endswith("were held, and 25% of the 40% of those that sensors saw were used")


def test_what_is_lost_is_a_range_that_says_what_of_it_is_inferred() -> None:
    (range_,) = _ledger([cluster_row(UNSEEN, inferred=[(bucket, UNSEEN.get(bucket, 0.0)) for bucket in LOST])])
    assert ", 0.0% to 17% lost (100% of it inferred), 83% without a sensor;" in range_.detail
    (known,) = _ledger([cluster_row(UNSEEN, at_least=[(bucket, UNSEEN.get(bucket, 0.0)) for bucket in LOST])])
    assert ", 17% lost, 83% without a sensor;" in known.detail


def test_a_generated_cluster_is_called_generated() -> None:
    (found,) = _ledger([cluster_row(UNSEEN, is_generated=True)])
    assert " GPU-hours of c (generated) from " in found.headline
    assert found.subject == "c"


def test_attempts_of_unknown_demand_are_said_to_be_missing() -> None:
    (missing,) = _ledger([cluster_row({"unknown": 100.0}, unknown_demand_ratio=0.98)])
    assert (missing.kind, missing.value) == ("missing_demand", 0.98)
    assert missing.headline == "what 98% of the attempts of c asked for is not known"


def flagged(cluster: str, ratio: float | None, **known: Any) -> dict[str, Any]:
    row = {"cluster_id": cluster, "dt": date(2026, 1, 5), "weekday": "Monday", "gpu_util_ratio": ratio}
    score = {"anomaly_flag": 1, "anomaly_score": -0.25, "coverage_ratio": 0.02, "is_poorly_covered": True}
    return row | score | known


def test_a_day_of_several_clusters_is_flagged_once() -> None:
    covered = {"coverage_ratio": 0.9, "is_poorly_covered": False}
    (found,) = _flagged_days([flagged("a", 0.25), flagged("b", None, **covered)])
    assert found.headline == "Monday, 2026-01-05 is flagged by the reference's forest (score -0.250)"
    assert found.detail.startswith("corrected GPU utilisation 25.0% of a, – of b; the forest always flags 5 %")
    (edge,) = _flagged_days([flagged("a", 0.25)])
    assert edge.detail == (
        "corrected GPU utilisation 25.0%; only 2.0% of capacity was observed: an edge of the data, not an incident"
    )


def test_users_of_the_same_name_in_two_clusters_are_two_and_one_may_have_none() -> None:
    nothing = {"used_gpu_hours": 0.0, "under_used_gpu_hours": 0.0, "dt": date(2026, 1, 5)}
    held = (("a", "u", 30.0), ("b", "u", 10.0), ("c", "unknown", 5.0))
    rows = [
        nothing | {"cluster_id": cluster, "user_id": user, "idle_gpu_hours": hours} for cluster, user, hours in held
    ]
    with lake_of({"gold_ledger_daily": rows}) as read:
        found = list(_idle_holders(read(SQL["holders"]).to_pylist()))
    reported = "100% of the {} GPU-hours that sensors saw; 100% of all idle GPU-hours of {}; 0 more were under-used"
    assert [(one.cluster_id, one.subject, one.value, one.detail) for one in found] == [
        ("a", "u", 30.0, reported.format(30, "a")),
        ("b", "u", 10.0, reported.format(10, "b")),
        ("c", "unknown", 5.0, reported.format(5, "c")),
    ]


def test_who_uses_a_part_of_what_they_hold_holds_no_idle_gpus() -> None:
    day = {"cluster_id": "a", "dt": date(2026, 1, 5), "used_gpu_hours": 10.0}
    rows = [
        day | {"user_id": "part", "idle_gpu_hours": 0.0, "under_used_gpu_hours": 90.0},
        day | {"user_id": "both", "idle_gpu_hours": 30.0, "under_used_gpu_hours": 60.0},
    ]
    with lake_of({"gold_ledger_daily": rows}) as read:
        (found,) = _idle_holders(read(SQL["holders"]).to_pylist())
    assert found.headline == "user both held 30 idle GPU-hours"
    assert found.detail == (
        "30% of the 100 GPU-hours that sensors saw; 100% of all idle GPU-hours of a; 60 more were under-used"
    )
