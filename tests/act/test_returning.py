"""Nodes that were cordoned come back once they pass the site's check, and only those."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import dead_jobs
from dead_jobs import NOW, Programs, died, recover, settings, trail
from gpulake.act.recovery import Asked
from gpulake.act.returning import Returned
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import ActError, UsageError
from gpulake.flow import Flow
from gpulake.flow.recovering import watch
from gpulake.lake import Lake

OWN = settings(check_command=("hook", "check", "{node}"), restart_command=(), uncordon_command=())
CORDON: dict[str, Any] = {"action": "cordon_node_and_restart", "reason": "ECCError", "node": "n1"}
OURS = ("^sinfo", 0, "gpulake 4f1c2d: ECCError: the link went down")
RESUME = ["scontrol", "update", "nodename=n1", "state=resume"]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


def returned(lake: Lake, own: Any = OWN, minutes: float = 60.0, is_executed: bool = True) -> Returned:
    clock = FrozenClock(NOW + timedelta(minutes=minutes))
    return Flow(replace(lake.config, recoveries=own), clock).uncordon("n1", is_executed)


def look(lake: Lake, minutes: float, own: Any = OWN) -> list[Any]:
    """One look of an unattended recovery."""
    clock = FrozenClock(NOW + timedelta(minutes=minutes))
    watched = Lake(replace(lake.config, recoveries=own))
    return list(watch(watched, clock, Asked("", "slurm", True), NOW + timedelta(days=9), lambda _: True, bool))


def steps(lake: Lake) -> list[tuple[Any, ...]]:
    return [row for row in trail(lake) if row[0] in ("check", "uncordon")]


def test_a_node_that_passes_the_check_is_returned(lake: Lake, cluster: Programs) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)
    cluster.answer(OURS)
    plan = returned(lake, is_executed=False)
    assert plan == Returned("n1", "4f1c2d", "slurm", (("hook", "check", "n1"), tuple(RESUME)))
    assert steps(lake) == []
    assert returned(lake) == replace(plan, check="done", uncordon="done")
    assert cluster.calls()[-2:] == [["hook", "check", "n1"], RESUME]
    assert steps(lake) == [
        ("check", "n1", "started"),
        ("check", "n1", "done"),
        ("uncordon", "n1", "started"),
        ("uncordon", "n1", "done"),
    ]
    with pytest.raises(UsageError, match="gpulake has not cordoned node 'n1'"):
        returned(lake)


def test_a_node_that_fails_the_check_stays_out_of_service(lake: Lake, cluster: Programs) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)
    cluster.answer(("hook check", 1, "GPU 3: 2 uncorrectable errors"))
    found = returned(lake)
    assert (found.check, found.uncordon, found.detail) == ("failed", None, "GPU 3: 2 uncorrectable errors")
    assert RESUME not in cluster.calls()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (("^sinfo", 0, "fan broken, ask Eve"), "it is out of service for another reason: fan broken, ask Eve"),
        (("^sinfo", 1, "down"), "the scheduler does not say why the node is out of service"),
    ],
)
def test_a_node_that_somebody_else_took_out_stays_out(
    lake: Lake, cluster: Programs, answer: tuple[str, int, str], why: str
) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)
    cluster.answer(answer)
    found = returned(lake)
    assert (found.check, found.uncordon, found.detail) == ("done", "refused", why)
    assert RESUME not in cluster.calls()
    assert look(lake, 120) == []  # it is not asked again


def test_an_unattended_recovery_checks_after_a_while_and_again_where_the_check_failed(
    lake: Lake, cluster: Programs
) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)  # a minute after NOW
    cluster.answer(("hook check", 1, "bad"), OURS)
    assert look(lake, 20) == []
    assert [one.check for one in look(lake, 40)] == ["failed"]
    cluster.answer(OURS)
    assert look(lake, 60) == []
    assert [one.uncordon for one in look(lake, 80)] == ["done"]
    assert look(lake, 120) == []


def test_a_node_that_failed_again_is_left_to_a_person(lake: Lake, cluster: Programs) -> None:
    cluster.answer(OURS)
    died(lake, **CORDON)
    recover(lake, own=OWN)
    assert len(look(lake, 40)) == 1
    died(lake, "b2", minutes=60, job_id="78", **CORDON)
    assert [taken.status for taken in recover(lake, "b2", 61, OWN).steps] == ["done", "done"]
    assert look(lake, 120) == []
    assert len(look(lake, 120, replace(OWN, most_uncordons=2))) == 1


def test_a_node_that_came_back_does_not_count_for_the_brake(lake: Lake, cluster: Programs) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)
    died(lake, "b2", minutes=60, job_id="78", **{**CORDON, "node": "n2"})
    refused = recover(lake, "b2", 61, OWN, is_executed=False)
    assert "may be" in refused.steps[0].step.refused
    cluster.answer(OURS)
    returned(lake)
    assert [taken.step.refused for taken in recover(lake, "b2", 62, OWN, is_executed=False).steps] == ["", ""]


def test_without_a_check_no_node_is_returned(lake: Lake, cluster: Programs) -> None:
    died(lake, **CORDON)
    recover(lake, own=OWN)
    with pytest.raises(ActError, match="node n1 cannot be checked"):
        returned(lake, settings())
    assert look(lake, 999, settings()) == []
    assert len(cluster.calls()) == 2
