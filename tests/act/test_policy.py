"""From a diagnosis to a plan: the same for the same case, and nothing rash."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from dead_jobs import NOW
from gpulake.act.budget import Breaker, Budget
from gpulake.act.checkpoints import Checkpoint, Choice
from gpulake.act.execution import message
from gpulake.act.failures import Failure
from gpulake.act.policy import RecoveryPlan, Situation, Step, decide, step_of
from gpulake.core.diagnosis import CATEGORY_OF, Action, Diagnosis, Method, Quote, Recovery, Verdict
from gpulake.core.recovery_settings import Recoveries

LAST = Checkpoint(Path("/ckpt/iter_0001000"), "megatron", NOW - timedelta(hours=1), 5, 1000)
NEWEST = replace(LAST, path=Path("/ckpt/iter_0001500"), step=1500, saved_at=NOW)
FROM = "after ECCError, from iter_0001000, saved at 2026-01-02 11:00 UTC"


def failure(action: Action = "auto_restart", is_confirmed: bool = False, **reported: Any) -> Failure:
    found = {"verdict": "failed", "category": "infrastructure", "reason": "ECCError", "cause": "memory", "job_id": "77"}
    diagnosis = Diagnosis(**{**found, "recovery": Recovery(action, "so says the rule"), "ended_at": NOW, **reported})
    return Failure("4f1c", "d1", NOW, diagnosis, is_confirmed)


class Chosen:
    """Answers with the same checkpoint, and remembers what it was asked for."""

    def __init__(self, choice: Choice | None = None) -> None:
        self.choice = choice
        self.asked: list[tuple[datetime | None, int | None, tuple[str, ...]]] = []

    def __call__(
        self, before: datetime | None = None, before_step: int | None = None, not_again: Collection[str] = ()
    ) -> Choice | None:
        self.asked.append((before, before_step, tuple(not_again)))
        return self.choice


def situation(choose: Chosen | None = None, own: dict[str, Any] | None = None, **known: Any) -> Situation:
    choose = choose or Chosen(Choice(LAST, NEWEST))
    usual: dict[str, Any] = {"budget": Budget(), "breaker": Breaker(), "choose": choose}
    return Situation(Recoveries(**own or {}), **{**usual, "recorded": frozenset({"n1", "n2", "login"}), **known})


def steps(plan: RecoveryPlan) -> list[tuple[str, str | None]]:
    return [(step.step, step.node) for step in plan.steps if not step.refused]


def test_a_restart_is_from_the_last_good_checkpoint() -> None:
    choose = Chosen(Choice(LAST, NEWEST, (("iter_0001500", "is cut off"),)))
    assert decide(failure(), situation(choose)) == RecoveryPlan(
        "auto_restart",
        "so says the rule",
        (Step("restart", FROM, checkpoint=LAST),),
        passed_over=(("iter_0001500", "is cut off"),),
    )
    assert choose.asked == [(NOW, None, ())]


def test_without_checkpoints_the_job_finds_its_own() -> None:
    (restart,) = decide(failure(), situation(Chosen())).steps
    assert restart == Step("restart", "after ECCError, from the checkpoint that the job finds itself")


def test_a_node_that_is_named_is_cordoned_first() -> None:
    plan = decide(failure("cordon_node_and_restart", node="n1"), situation())
    assert plan.steps == (
        Step("cordon", "ECCError began there", node="n1"),
        Step("restart", FROM, checkpoint=LAST),
    )


@pytest.mark.parametrize("recorded", [{"n1"}, {"n1", "n1.example.org"}])
def test_the_only_node_of_a_job_needs_no_name(recorded: set[str]) -> None:
    plan = decide(failure("cordon_node_and_restart"), situation(recorded=frozenset(recorded)))
    assert steps(plan) == [("cordon", "n1"), ("restart", None)]


def test_a_node_that_is_not_named_is_looked_for() -> None:
    own = {"test_command": ("srun", "-w", "{nodes}", "t")}
    known = situation(own=own, job_nodes=("a", "b", "c"), recorded=frozenset("abc"))
    plan = decide(failure("cordon_node_and_restart", rank=3), known)
    assert steps(plan) == [("test", None), ("cordon", None), ("restart", None)]
    assert plan.steps[0].nodes == ("a", "b", "c")


def test_a_node_that_cannot_be_looked_for_does_not_keep_the_job_from_its_restart() -> None:
    plan = decide(failure("cordon_node_and_restart"), situation(job_nodes=("a", "b")))
    assert steps(plan) == [("restart", None), ("tell", None)]
    assert plan.steps[1].why == "the faulty node is not known, and to look for it takes a test_command in [recoveries]"


def test_a_node_is_not_cordoned_twice() -> None:
    plan = decide(failure("cordon_node_and_restart", node="n1"), situation(breaker=Breaker(("n1",))))
    assert steps(plan) == [("restart", None)]


def test_an_open_breaker_lets_nothing_be_done() -> None:
    plan = decide(failure("cordon_node_and_restart", node="n2"), situation(breaker=Breaker(("n1",), nodes=20)))
    why = "2 nodes of 20 would be cordoned, and 1 may be"
    assert plan.steps == (
        Step("cordon", "the diagnosis names it", node="n2", refused=why),
        Step("tell", f"neither cordoned nor restarted: {why}"),
    )


def test_a_node_that_no_inventory_knows_is_left_alone() -> None:
    known = situation(inventory=frozenset({"n1.cluster", "n2.cluster"}))
    assert steps(decide(failure("cordon_node_and_restart", node="login"), known)) == [("restart", None), ("tell", None)]
    assert steps(decide(failure("cordon_node_and_restart", node="n1"), known)) == [("cordon", "n1"), ("restart", None)]


def test_nodes_that_no_inventory_knows_are_not_tested() -> None:
    own = {"test_command": ("srun", "-w", "{nodes}", "t")}
    inventory = frozenset({"n1.cluster", "n2.cluster"})
    known = situation(own=own, job_nodes=("n1", "n9"), inventory=inventory, recorded=frozenset())
    plan = decide(failure("cordon_node_and_restart"), known)
    assert steps(plan) == [("restart", None), ("tell", None)]
    assert plan.steps[1].why == "the faulty node is not looked for: the inventory has no machine n9"


def test_a_budget_that_is_spent_ends_in_a_word_to_the_user() -> None:
    spent = Budget(restarts=3)
    why = "not restarted: it was restarted 3 times since it last made progress, and no more is allowed"
    assert decide(failure(), situation(budget=spent)).steps == (Step("tell", why),)
    # The node is faulty for the others too.
    plan = decide(failure("cordon_node_and_restart", node="n1"), situation(budget=spent))
    assert steps(plan) == [("cordon", "n1"), ("tell", None)]


@pytest.mark.parametrize("action", ["needs_config_change", "needs_code_fix", "needs_data_fix"])
def test_a_needed_change_notifies_the_user(action: Action) -> None:
    assert steps(decide(failure(action), situation())) == [("tell", None)]


def test_an_unknown_failure_is_restarted_unless_the_settings_forbid_it() -> None:
    unknown = failure("unknown", verdict="unknown", reason="unknown")
    assert steps(decide(unknown, situation())) == [("restart", None)]
    assert steps(decide(unknown, situation(own={"restart_unknown": False}))) == [("tell", None)]
    assert steps(decide(unknown, situation(budget=Budget(restarts=3)))) == [("tell", None)]


def test_what_did_not_fail_is_left_alone() -> None:
    assert decide(failure("none", reason="JobCancelled"), situation()).steps == ()
    assert decide(failure("auto_restart", verdict="healthy"), situation()).steps == ()
    assert decide(replace(failure(), is_resolved=True), situation()).steps == ()


NAN: dict[str, Any] = {"reason": "LossNaN", "evidence": (Quote(9, " iteration     1400/  500000 | lm loss: NAN |"),)}


def test_a_loss_that_went_astray_is_rolled_back_past_its_data() -> None:
    choose = Chosen(Choice(LAST, NEWEST))
    plan = decide(failure("unknown", **NAN), situation(choose, rolled_back_to=("/ckpt/iter_0001200",)))
    assert plan.steps == (
        Step(
            "rollback",
            "to iter_0001000, from before the loss diverged",
            checkpoint=LAST,
            skip_from_step=1000,
            skip_to_step=1400,
        ),
    )
    assert choose.asked[-1] == (NOW - timedelta(minutes=30), 1300, ("/ckpt/iter_0001200",))


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (situation(Chosen()), "not rolled back: the folder of checkpoints is unknown (--checkpoints)"),
        (
            situation(Chosen(Choice(None, NEWEST))),
            "not rolled back: no checkpoint is whole and from before the loss diverged",
        ),
        (
            situation(budget=Budget(rollbacks=2)),
            "not rolled back: it was rolled back 2 times, and no more is allowed",
        ),
        (
            situation(budget=Budget(restarts=3)),
            "not rolled back: it was restarted 3 times since it last made progress, and no more is allowed",
        ),
    ],
)
def test_a_loss_that_cannot_be_rolled_back_notifies_the_user(known: Situation, why: str) -> None:
    assert decide(failure("unknown", **NAN), known).steps == (Step("tell", why),)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("iteration     1200/ 5000 | loss nan", 1200),
        ("{'step': 77, 'loss': nan}", 77),
        ("global_step=5: loss is nan", 5),
        ("[step 0] nan", 0),
        ("time_step is nan", None),
        ("loss nan after step " + "9" * 40, None),
    ],
)
def test_the_step_is_read_from_the_evidence(text: str, step: int | None) -> None:
    assert step_of([Quote(1, text)]) == step


@pytest.mark.parametrize("method", ["model", "recall"])
def test_a_model_alone_leads_to_no_more_than_a_restart_and_a_word(method: Method) -> None:
    every = product(get_args(Action), CATEGORY_OF, get_args(Verdict), (None, "n1"))
    for action, reason, verdict, node in every:
        found = failure(action, method=method, reason=reason, verdict=verdict, node=node, confidence=1.0)
        known = situation(own={"test_command": ("srun", "{nodes}")}, job_nodes=("n1", "n2"))
        assert {step.step for step in decide(found, known).steps} <= {"restart", "tell"}


def test_a_confirmed_diagnosis_counts_whatever_its_method() -> None:
    found = failure("cordon_node_and_restart", method="model", node="n1", is_confirmed=True)
    assert steps(decide(found, situation())) == [("cordon", "n1"), ("restart", None)]


def test_confidence_changes_nothing() -> None:
    for action, reason in product(get_args(Action), CATEGORY_OF):
        plans = [decide(failure(action, reason=reason, confidence=sure), situation()) for sure in (0.0, 0.5, 1.0)]
        assert plans[0] == plans[1] == plans[2]


def test_the_user_is_notified_of_cause_proof_and_remedy() -> None:
    quotes = (Quote(12, "RuntimeError: \x1b[31mshape"), Quote(3, "x", file="rank3.log"))
    found = failure(cause="two shapes differ", remedy="Fix the model.", evidence=quotes, reason="RuntimeError")
    assert message(found, "a restart would fail again") == (
        "Job 77: RuntimeError. two shapes differ. Line 12: RuntimeError: \N{REPLACEMENT CHARACTER}[31mshape"
        " rank3.log line 3: x What to do: Fix the model. A restart would fail again (incident 4f1c)."
    )
