"""The plan of a recovery: a function of the failure and of what was done before. No model is asked.

A job is restarted unless there is proof that it would fail again, or its budget is spent. Cordons and skipped data need
a rule, samples or a person, never a model alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from gpulake.act.audit import StepName
from gpulake.act.budget import Breaker, Budget
from gpulake.act.checkpoints import Checkpoint, Choice
from gpulake.act.failures import Failure
from gpulake.core.diagnosis import Action, Quote
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.words import listed
from gpulake.lake.machines import distinct, named

DIVERGED = ("LossNaN", "LossSpike")  # caused by the weights, or by the data of the last steps
FOR_THE_USER: tuple[Action, ...] = ("needs_config_change", "needs_code_fix", "needs_data_fix")
_ITERATION = re.compile(r"\b(?:iteration|global[_ ]step|step)\W{0,10}(\d{1,12})\b", re.IGNORECASE)


class Choose(Protocol):
    """The last good checkpoint, as in act/checkpoints.py; None where their folder is unknown."""

    def __call__(
        self, before: datetime | None = None, before_step: int | None = None, not_again: Collection[str] = ()
    ) -> Choice | None: ...


@dataclass(frozen=True)
class Step:
    step: StepName
    why: str
    node: str | None = None  # of a cordon; None: the nodes that the test finds
    nodes: tuple[str, ...] = ()  # of a test
    checkpoint: Checkpoint | None = None
    skip_from_step: int | None = None  # the data of these steps are skipped
    skip_to_step: int | None = None
    refused: str = ""  # why it is not taken


@dataclass(frozen=True)
class Situation:
    """All that a plan depends on besides the failure."""

    settings: Recoveries
    budget: Budget
    breaker: Breaker
    choose: Choose
    job_nodes: tuple[str, ...] = ()  # to be tested
    recorded: frozenset[str] = frozenset()  # nodes of the job, by the scheduler or a person; empty: unknown
    inventory: frozenset[str] = frozenset()  # names of the cluster's machines; empty: unknown
    rolled_back_to: tuple[str, ...] = ()  # checkpoints that did not help
    stale: str = ""  # why it is too late to do anything about this failure

    @property
    def only_node(self) -> str | None:
        """The node that the job ran on, where it never ran on another."""
        nodes = distinct(self.recorded)
        return nodes[0] if len(nodes) == 1 else None


@dataclass(frozen=True)
class RecoveryPlan:
    action: Action
    why: str
    steps: tuple[Step, ...] = ()
    passed_over: tuple[tuple[str, str], ...] = ()  # checkpoints, and why


def decide(failure: Failure, situation: Situation) -> RecoveryPlan:
    """Where only the log names the job, or disputes it, the user is notified and nothing else is done."""
    plan = _decided(failure, situation)
    if not failure.doubt:
        return plan
    steps = (step if step.step == "tell" else replace(step, refused=failure.doubt) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def _decided(failure: Failure, situation: Situation) -> RecoveryPlan:
    diagnosis, action = failure.diagnosis, failure.diagnosis.recovery.action
    if failure.is_resolved:
        return RecoveryPlan(action, "the incident is resolved")
    if situation.stale:
        return RecoveryPlan(action, f"{situation.stale}; with --again it is recovered all the same")
    if diagnosis.verdict == "healthy" or action == "none":
        return RecoveryPlan(action, diagnosis.recovery.why or "nothing failed that a restart would bring back")
    choice = situation.choose(before=diagnosis.ended_at or failure.opened_at)
    passed_over = choice.passed_over if choice else ()
    chosen = choice.chosen if choice else None
    if not failure.is_grounded:
        return RecoveryPlan(
            action, _ungrounded(failure), _restart(failure, situation, chosen, notify=True), passed_over
        )
    if diagnosis.reason in DIVERGED:
        return _diverged(failure, situation)
    why = diagnosis.recovery.why or f"{diagnosis.reason} calls for {action}"
    return RecoveryPlan(action, why, _grounded(failure, situation, chosen), passed_over)


def _grounded(failure: Failure, situation: Situation, checkpoint: Checkpoint | None) -> tuple[Step, ...]:
    action = failure.diagnosis.recovery.action
    if action in FOR_THE_USER:
        return (Step("tell", "a restart would fail again until somebody changes something"),)
    if action == "unknown" and not situation.settings.restart_unknown:
        return (Step("tell", "the reason is unknown, and restart_unknown is off"),)
    if action != "cordon_node_and_restart":
        return _restart(failure, situation, checkpoint)
    node = failure.diagnosis.node or situation.only_node
    if node is not None:
        return _cordon_and_restart(node, failure, situation, checkpoint)
    return _test_and_restart(failure, situation, checkpoint)


def _ungrounded(failure: Failure) -> str:
    basis = {"model": "a model says so", "recall": "past incidents are like it"}.get(failure.diagnosis.method, "")
    return f"{basis}, which is no proof: only a restart and a message to the user may follow"


def _restart(
    failure: Failure, situation: Situation, checkpoint: Checkpoint | None, notify: bool = False
) -> tuple[Step, ...]:
    if spent := situation.budget.spent():
        return (Step("tell", f"not restarted: {spent}"),)
    restart = Step("restart", _from(checkpoint, failure), checkpoint=checkpoint)
    return (restart, Step("tell", "what was found may need a change")) if notify else (restart,)


def _from(checkpoint: Checkpoint | None, failure: Failure) -> str:
    reason = failure.diagnosis.reason
    if checkpoint is None:
        return f"after {reason}, from the checkpoint that the job finds itself"
    return f"after {reason}, from {checkpoint.path.name}, saved at {checkpoint.saved_at:%Y-%m-%d %H:%M} UTC"


def _cordon_and_restart(
    node: str, failure: Failure, situation: Situation, checkpoint: Checkpoint | None
) -> tuple[Step, ...]:
    restart = _restart(failure, situation, checkpoint)
    known = named(node, situation.recorded)
    if (known or node) in situation.breaker.cordoned:
        return restart
    refused = "" if known else _not_of_job(failure, situation)
    if known and situation.inventory and not named(known, situation.inventory):
        refused = "the inventory has no machine of this name"
    if known is None or refused:
        return (_refused(node, refused), *restart, *_notice(restart, f"node {node} was not cordoned: {refused}"))
    if refused := situation.breaker.refuses([known]):
        return (_refused(known, refused), Step("tell", f"neither cordoned nor restarted: {refused}"))
    return (Step("cordon", f"{failure.diagnosis.reason} began there", node=known), *restart)


def _not_of_job(failure: Failure, situation: Situation) -> str:
    """Why a node that the diagnosis names is not acted on."""
    if failure.diagnosis.job_id is None:
        return "the job is unknown, and so whether it ran there; name the job with --job"
    job = f"job {failure.diagnosis.job_id}"
    if situation.recorded:
        return f"the log names it, and the record of the scheduler gives {job} {listed(situation.recorded)}"
    return f"no record shows whether {job} ran there; land its accounting, or name the job's nodes with --nodes"


def _test_and_restart(failure: Failure, situation: Situation, checkpoint: Checkpoint | None) -> tuple[Step, ...]:
    """The faulty node is unknown: the two-round test finds it, where that is possible."""
    restart = _restart(failure, situation, checkpoint)
    if not situation.job_nodes or not situation.settings.test_command:
        lacks = "--nodes" if not situation.job_nodes else "a test_command in [recoveries]"
        return (*restart, *_notice(restart, f"the faulty node is not known, and to look for it takes {lacks}"))
    for known, whose in ((situation.inventory, "the inventory"), (situation.recorded, "the job")):
        if strangers := [node for node in situation.job_nodes if known and not named(node, known)]:
            why = f"the faulty node is not looked for: {whose} has no machine {listed(strangers)}"
            return (*restart, *_notice(restart, why))
    if refused := situation.breaker.refuses([""]):
        return (Step("tell", f"the faulty node is not looked for, and the job not restarted: {refused}"),)
    test = Step("test", "the log does not name the faulty node", nodes=situation.job_nodes)
    return (test, Step("cordon", "the nodes that fail the test twice"), *restart)


def _refused(node: str, why: str) -> Step:
    return Step("cordon", "the diagnosis names it", node=node, refused=why)


def _notice(steps: Iterable[Step], why: str) -> tuple[Step, ...]:
    """One message is enough."""
    return () if any(step.step == "tell" for step in steps) else (Step("tell", why),)


def _diverged(failure: Failure, situation: Situation) -> RecoveryPlan:
    """Back to before the loss diverged, skipping the data that it saw since."""
    action, settings = failure.diagnosis.recovery.action, situation.settings
    why = f"{failure.diagnosis.reason}: the same weights on the same data would diverge again"
    if spent := situation.budget.spent_on_rollbacks():
        return RecoveryPlan(action, why, (Step("tell", f"not rolled back: {spent}"),))
    at = step_of(failure.diagnosis.evidence)
    end = failure.diagnosis.ended_at or failure.opened_at
    choice = situation.choose(
        before=end - timedelta(minutes=settings.rollback_margin_minutes),
        before_step=None if at is None else at - settings.rollback_margin_steps,
        not_again=situation.rolled_back_to,
    )
    if choice is None:
        return RecoveryPlan(
            action, why, (Step("tell", "not rolled back: the folder of checkpoints is unknown (--checkpoints)"),)
        )
    if choice.chosen is None:
        notice = Step("tell", "not rolled back: no checkpoint is whole and from before the loss diverged")
        return RecoveryPlan(action, why, (notice,), choice.passed_over)
    newest = choice.newest.step if choice.newest else None
    rollback = Step(
        "rollback",
        f"to {choice.chosen.path.name}, from before the loss diverged",
        checkpoint=choice.chosen,
        skip_from_step=choice.chosen.step,
        skip_to_step=at if at is not None else newest,
    )
    return RecoveryPlan(action, why, (rollback,), choice.passed_over)


def step_of(evidence: Iterable[Quote]) -> int | None:
    """The training step at which it happened, from the best evidence that has one."""
    for quote in evidence:
        if found := _ITERATION.search(quote.text):
            return int(found[1])
    return None
