"""The brakes: restarts without progress, the same failure over again, and nodes that are taken away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from dead_jobs import NOW
from gpulake.act.audit import AuditRow
from gpulake.act.budget import Breaker, Budget, breaker, budget, made_progress
from gpulake.act.checkpoints import Checkpoint
from gpulake.core.recovery_settings import Recoveries

ECC = ("ECCError", "n1")
RULES = Recoveries()


def row(number: int, step: Any = "restart", status: Any = "done", node: str | None = None, **detail: Any) -> AuditRow:
    """One of a recovery of its own, so many hours after NOW."""
    about = {"reason": "ECCError", "failed_node": "n1", "has_progress": number == 0, **detail}
    at = NOW + timedelta(hours=number)
    return AuditRow(
        f"r{number}", at, "run", f"i{number}", "c", "77", node, "auto_restart", step, "slurm", status, number + 1, about
    )


def test_a_job_that_was_never_restarted_has_all_of_it() -> None:
    assert budget([], ECC, True, RULES) == Budget()
    assert budget([], ECC, True, RULES).spent() == ""


def test_three_restarts_without_progress_are_the_most() -> None:
    past = [row(number, reason=f"Reason{number}") for number in range(3)]
    assert budget(past[:2], ECC, False, RULES).spent() == ""
    spent = budget(past, ECC, False, RULES)
    assert (spent.attempt, spent.restarts, spent.repeats) == (4, 3, 0)
    assert spent.spent() == "it was restarted 3 times since it last made progress, and no more is allowed"


def test_the_same_failure_again_without_progress_stops() -> None:
    again = budget([row(0)], ECC, False, RULES)
    assert again.spent() == "it failed the same way again, with no progress since it was restarted"
    assert budget([row(0)], ("ECCError", "n2"), False, RULES).spent() == ""
    assert budget([row(0)], ("NetworkError", "n1"), False, RULES).spent() == ""


def test_progress_gives_the_budget_back() -> None:
    past = [row(number) for number in range(3)]
    assert budget(past, ECC, True, RULES) == Budget(attempt=4, has_progress=True)
    # There was progress before the second: only what came after counts.
    past[1] = row(1, has_progress=True)
    assert budget(past, ECC, False, RULES).restarts == 2


def test_what_failed_was_no_restart_and_what_may_have_been_done_was() -> None:
    for status, restarts in (("failed", 0), ("refused", 0), ("unknown", 1), ("started", 1), ("done", 1)):
        assert budget([row(0, status=status)], ECC, False, RULES).restarts == restarts
    assert budget([row(0, status="started"), row(0, status="failed")], ECC, False, RULES).restarts == 0
    assert budget([row(0, status="started"), row(0)], ECC, False, RULES).restarts == 1


def test_a_rollback_is_a_restart_and_has_a_budget_of_its_own() -> None:
    past = [row(0, "rollback"), row(1, "rollback")]
    found = budget(past, ECC, True, RULES)
    assert (found.attempt, found.rollbacks) == (3, 2)
    assert found.spent_on_rollbacks() == "it was rolled back 2 times, and no more is allowed"
    # The same failure again may be rolled back further.
    assert budget(past[:1], ECC, False, RULES).spent_on_rollbacks() == ""


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert budget([], ECC, True, Recoveries(most_restarts=0)).spent()


def test_progress_is_a_checkpoint_that_is_newer_and_further() -> None:
    last = row(0, checkpoint_step=1000)
    newest = Checkpoint(Path("/c/iter_0001500"), "megatron", NOW + timedelta(minutes=5), 5, 1500)
    assert made_progress(None, None, False, 0.0, RULES)
    assert made_progress(last, newest, True, 0.0, RULES)
    assert made_progress(last, replace(newest, step=None), True, 0.0, RULES)
    assert not made_progress(last, replace(newest, step=1000), True, 1e6, RULES)
    assert not made_progress(last, replace(newest, saved_at=NOW), True, 1e6, RULES)
    assert not made_progress(last, None, True, 1e6, RULES)


def test_where_no_checkpoints_are_known_a_long_run_made_progress() -> None:
    assert not made_progress(row(0), None, False, 3599.0, RULES)
    assert made_progress(row(0), None, False, 3600.0, RULES)


def cordons(*nodes: str, **about: Any) -> list[AuditRow]:
    return [row(number, "cordon", node=node, **about) for number, node in enumerate(nodes)]


def test_one_node_may_always_be_cordoned_and_then_a_share() -> None:
    later = NOW + timedelta(hours=20)
    assert breaker([], "c", None, NOW, RULES) == Breaker()
    assert breaker([], "c", 10, NOW, RULES).most == 1
    assert breaker([], "c", 100, NOW, RULES).most == 5
    five = breaker(cordons("a", "b", "c", "d", "e"), "c", 100, later, RULES)
    assert five.refuses(["f"]) == "6 nodes of 100 would be cordoned, and 5 may be"
    assert five.refuses(["a"]) == ""
    four = breaker(cordons("a", "b", "c", "d"), "c", 100, later, RULES)
    assert four.refuses(["f"]) == ""
    assert four.refuses(["f", "g"]) == "6 nodes of 100 would be cordoned, and 5 may be"
    unknown = breaker(cordons("a"), "c", None, later, RULES)
    assert unknown.refuses(["b"]) == "2 nodes of a cluster of unknown size would be cordoned, and 1 may be"


def test_no_more_than_so_many_are_cordoned_in_an_hour() -> None:
    soon = breaker(cordons("a", "b"), "c", 1000, NOW + timedelta(minutes=59), RULES)
    assert soon.in_last_hour == 2
    assert soon.refuses(["z"]) == "3 nodes would be cordoned within an hour, and 2 may be"
    assert breaker(cordons("a", "b"), "c", 1000, NOW + timedelta(hours=3), RULES).refuses(["z"]) == ""
    none = breaker([], "c", 1000, NOW, Recoveries(most_cordons_per_hour=0))
    assert none.refuses(["z"]) == "1 node would be cordoned within an hour, and 0 may be"


def test_a_cordon_in_doubt_counts_and_one_that_failed_does_not() -> None:
    past = [*cordons("a"), row(1, "cordon", "started", "b"), row(2, "cordon", "failed", "d")]
    found = breaker(past, "c", 1000, NOW + timedelta(hours=5), RULES)
    assert (found.cordoned, found.maybe) == (("a",), ("b",))


def test_nodes_of_other_clusters_and_of_long_ago_do_not_count() -> None:
    assert breaker(cordons("a"), "other", 1000, NOW, RULES).cordoned == ()
    assert breaker(cordons("a"), None, 1000, NOW, RULES).cordoned == ("a",)
    assert breaker(cordons("a"), "c", 1000, NOW + timedelta(hours=168), RULES).cordoned == ()
