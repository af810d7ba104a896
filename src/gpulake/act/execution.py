"""Carries out a plan, step by step. Each step has a row in the audit trail before it is taken, and one with its result.

A process that is killed leaves a step that was started: it may have been done, and is only taken again with --again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from gpulake.act.audit import OPEN, AuditRow, Status, StepName, last_of_each
from gpulake.act.budget import Breaker, Budget
from gpulake.act.commands import Outcome
from gpulake.act.failures import Failure
from gpulake.act.pairwise import PairwiseResult, find_faulty
from gpulake.act.policy import RecoveryPlan, Step
from gpulake.act.recoveries import Command, Commands, Executor, Order, safe_node
from gpulake.core.errors import ActError
from gpulake.core.placeholders import filled
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.words import label

FRESH = timedelta(hours=1)
BRINGS_BACK: tuple[StepName, ...] = ("restart", "rollback")
MOST_QUOTES = 3
MOST_QUOTED = 160


@dataclass(frozen=True)
class Taken:
    """A step with the commands that take it, and its result; no status: it was not taken."""

    step: Step
    commands: Commands = ()
    status: Status | None = None
    detail: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Rescue:
    """A recovery of one incident: its plan, or its result."""

    recovery_id: str
    attempt: int
    executor: str
    failure: Failure
    plan: RecoveryPlan
    budget: Budget
    breaker: Breaker
    steps: tuple[Taken, ...] = ()
    done_at: datetime | None = None  # of a recovery that was complete before
    in_doubt: str = ""  # a step of an earlier try with an unknown result


def recovery_id(failure: Failure, attempt: int) -> str:
    return hashlib.sha256(f"{failure.incident_id}\n{failure.diagnosis_id}\n{attempt}".encode()).hexdigest()[:12]


def order_of(failure: Failure, step: Step, attempt: int) -> Order:
    diagnosis, checkpoint = failure.diagnosis, step.checkpoint
    return Order(
        incident_id=failure.incident_id,
        attempt=attempt,
        job_id=diagnosis.job_id,
        cluster_id=diagnosis.cluster_id,
        node=step.node,
        checkpoint=str(checkpoint.path.absolute()) if checkpoint else None,
        checkpoint_step=checkpoint.step if checkpoint else None,
        skip_from_step=step.skip_from_step,
        skip_to_step=step.skip_to_step,
        reason=diagnosis.reason,
        cause=diagnosis.cause,
        message=message(failure, step.why) if step.step == "tell" else "",
    )


def prepare(failure: Failure, plan: RecoveryPlan, executor: Executor, attempt: int) -> tuple[Taken, ...]:
    """The commands of each step. A step that cannot be taken is refused beforehand, and the user notified."""
    prepared = [_prepared(failure, step, executor, attempt) for step in plan.steps]
    refused = [taken for taken in prepared if taken.status == "refused"]
    if refused and not any(taken.step.step == "tell" for taken in prepared):
        notice = Step("tell", f"no {refused[0].step.step}: {refused[0].detail}")
        prepared.append(_prepared(failure, notice, executor, attempt))
    return tuple(prepared)


def _prepared(failure: Failure, step: Step, executor: Executor, attempt: int) -> Taken:
    if step.refused:
        return Taken(step, status="refused", detail=step.refused)
    if step.step == "test" or (step.step == "cordon" and step.node is None):
        return Taken(step)
    programs: Mapping[str, Callable[[Order], Commands]] = {
        "restart": executor.restart,
        "rollback": executor.rollback,
        "cordon": executor.cordon,
        "tell": executor.tell,
    }
    try:
        return Taken(step, programs[step.step](order_of(failure, step, attempt)))
    except ActError as error:
        return Taken(step, status="refused", detail=f"{error.message}; {error.hint}".rstrip("; "))


def in_doubt(rows: Sequence[AuditRow]) -> str:
    """A step that was started and has no result. Tests change nothing, and to return a node twice does no harm."""
    for row in last_of_each(rows):
        if row.step in ("cordon", "restart", "rollback", "tell") and row.status in OPEN:
            what = f"{row.step} of node {row.node}" if row.node else row.step
            when = f"{row.stepped_at:%Y-%m-%d %H:%M:%S} UTC"
            whose = f"job {row.job_id}, incident {row.incident_id}"
            return label(f"{what} was begun at {when}, and nobody knows whether it was done ({whose})")
    return ""


@dataclass
class Execution:
    """One try at a recovery. `run` starts programs."""

    rescue: Rescue
    executor: Executor
    settings: Recoveries
    record: Callable[[AuditRow], None]
    run: Callable[[Sequence[str], float], Outcome]
    now: Callable[[], datetime]
    run_id: str
    earlier: Sequence[AuditRow] = ()  # rows of earlier tries at the same recovery
    stopped: Callable[[], str] = str  # why no step may be taken any more; empty: steps may be taken
    _taken: list[Taken] = field(default_factory=list)
    _faulty: tuple[str, ...] = ()
    _stop: str = ""  # why no further step is taken
    _brake: str = ""  # why the job is not brought back although nothing failed

    def carry_out(self) -> Rescue:
        if not self._last("decide", None):
            steps = [{"step": taken.step.step, "node": taken.step.node} for taken in self.rescue.steps]
            words = {"why": self.rescue.plan.why, "diagnosis_id": self.rescue.failure.diagnosis_id, "steps": steps}
            self._write("decide", "started", None, words)
        for taken in self.rescue.steps:
            self._go_on(taken)
        if self._brake and not any(taken.step.step == "tell" for taken in self._taken):
            notice = Step("tell", self._brake)
            self._go_on(_prepared(self.rescue.failure, notice, self.executor, self.rescue.attempt))
        self._conclude()
        return replace(self.rescue, steps=tuple(self._taken))

    def _conclude(self) -> None:
        """A recovery with a refused step, or that was stopped, stays open: the step may be possible later."""
        is_refused = any(taken.status == "refused" for taken in self._taken)
        status: Status = "refused" if is_refused else "done"
        last = self._last("decide", None)
        if not self._stop and (last is None or last.status != status):
            self._write("decide", status, None, {"why": self.rescue.plan.why})

    def plan_only(self, planned: Sequence[AuditRow]) -> Rescue:
        """A dry run: one row for each step, written once."""
        known = {(row.recovery_id, row.step, row.node) for row in planned}
        for taken in (Taken(Step("decide", self.rescue.plan.why)), *self.rescue.steps):
            status: Status = "refused" if taken.status == "refused" else "planned"
            if taken.step.step != "decide":
                self._taken.append(replace(taken, status=status))
            if (self.rescue.recovery_id, taken.step.step, taken.step.node) not in known:
                self._write(taken.step.step, status, taken.step.node, self._about(taken))
        return replace(self.rescue, steps=tuple(self._taken))

    def _go_on(self, taken: Taken) -> None:
        step = taken.step
        self._stop = self._stop or self.stopped()
        if self._stop:
            self._taken.append(replace(taken, detail=self._stop))
        elif self._brake and step.step in BRINGS_BACK:
            self._refuse(replace(taken, detail=self._brake))
        elif taken.status == "refused":
            self._refuse(taken)
        elif step.step == "test":
            self._test(taken)
        elif step.step == "cordon" and step.node is None:
            self._cordon_found(step)
        else:
            self._take(taken)

    def _refuse(self, taken: Taken) -> None:
        last = self._last(taken.step.step, taken.step.node)
        if last is None or last.status != "refused":
            self._write(taken.step.step, "refused", taken.step.node, {"why": taken.detail})
        self._taken.append(replace(taken, status="refused"))

    def _take(self, taken: Taken) -> None:
        step = taken.step
        if (last := self._last(step.step, step.node)) and last.status == "done":
            when = f"done at {last.stepped_at:%Y-%m-%d %H:%M:%S} UTC already"
            self._taken.append(replace(taken, status="done", detail=when))
            return
        about = self._about(taken)
        self._write(step.step, "started", step.node, about)
        outcome = Outcome("done", detail="" if taken.commands else "there is no program to run for it")
        for command in taken.commands:
            outcome = self._ran(command)
            if outcome.status != "done":
                self._stop = f"not taken: the step before it, {step.step}, did not go well"
                break
        ended = {**about, "exit_code": outcome.exit_code, "said": outcome.detail}
        self._write(step.step, outcome.status, step.node, ended)
        self._taken.append(replace(taken, status=outcome.status, detail=outcome.detail, exit_code=outcome.exit_code))

    def _ran(self, command: Command) -> Outcome:
        outcome = self.run(command.arguments, self.settings.command_seconds)
        if outcome.status == "done" and command.failed_if_said and command.failed_if_said in outcome.detail:
            return replace(outcome, status="failed")
        return outcome

    def _test(self, taken: Taken) -> None:
        if (last := self._last("test", None)) and self._is_fresh(last, taken.step.nodes):
            self._faulty = tuple(last.detail.get("faulty", ()))
            self._taken.append(replace(taken, status="done", detail=_words(PairwiseResult(faulty=self._faulty))))
            return
        self._write("test", "started", None, {"nodes": list(taken.step.nodes), "why": taken.step.why})
        limits = self.settings
        try:
            found = find_faulty(
                taken.step.nodes, self._works, limits.spare_nodes, limits.test_tries, limits.tests_at_once
            )
        except ActError as error:
            self._write("test", "failed", None, {"why": error.message})
            self._taken.append(replace(taken, status="failed", detail=error.message))
            self._stop = "not taken: the nodes could not be tested"
            return
        self._faulty = found.faulty
        self._write("test", "done", None, asdict(found))
        self._taken.append(replace(taken, status="done", detail=_words(found)))

    def _is_fresh(self, test: AuditRow, nodes: tuple[str, ...]) -> bool:
        """A result is reused for an hour, for the same nodes."""
        tested = {node for name in ("faulty", "good", "undecided") for node in test.detail.get(name, ())}
        return test.status == "done" and tested == set(nodes) and self.now() - test.stepped_at < FRESH

    def _works(self, world: tuple[str, ...]) -> bool:
        """A test that hangs has failed. One that cannot be run is an error: it says nothing about the nodes."""
        words = {"nodes": ",".join(map(safe_node, world)), "count": str(len(world))}
        outcome = self.run(filled(self.settings.test_command, words), self.settings.test_seconds)
        if outcome.status == "failed" and outcome.exit_code is None:
            raise ActError(f"testing {', '.join(world)}: {outcome.detail}", "check test_command in [recoveries]")
        return outcome.status == "done"

    def _cordon_found(self, step: Step) -> None:
        """The breaker is checked again: the test may find more nodes than expected."""
        new = [node for node in self._faulty if node not in self.rescue.breaker.cordoned]
        refused = self.rescue.breaker.refuses(new) if new else ""
        if refused:
            self._brake = f"{', '.join(new)} failed the test, and were neither cordoned nor left out: {refused}"
        for node in new:
            why = f"node {node} failed the test twice"
            found = replace(step, node=node, why=why, refused=refused)
            self._go_on(_prepared(self.rescue.failure, found, self.executor, self.rescue.attempt))

    def _about(self, taken: Taken) -> dict[str, Any]:
        step, failure = taken.step, self.rescue.failure
        about: dict[str, Any] = {"why": step.why, "commands": [list(command.arguments) for command in taken.commands]}
        if step.step in BRINGS_BACK:
            about |= {
                "reason": failure.diagnosis.reason,
                "failed_node": failure.diagnosis.node,
                "has_progress": self.rescue.budget.has_progress,
                "checkpoint": str(step.checkpoint.path) if step.checkpoint else None,
                "checkpoint_step": step.checkpoint.step if step.checkpoint else None,
            }
        if step.step == "tell":
            about["message"] = message(failure, step.why)
        return about

    def _last(self, step: StepName, node: str | None) -> AuditRow | None:
        """A rollback counts as a restart."""
        names = BRINGS_BACK if step in BRINGS_BACK else (step,)
        return next((row for row in reversed(self.earlier) if row.step in names and row.node == node), None)

    def _write(self, step: StepName, status: Status, node: str | None, detail: Mapping[str, Any]) -> None:
        diagnosis = self.rescue.failure.diagnosis
        self.record(
            AuditRow(
                recovery_id=self.rescue.recovery_id,
                stepped_at=self.now(),
                run_id=self.run_id,
                incident_id=self.rescue.failure.incident_id,
                cluster_id=diagnosis.cluster_id,
                job_id=diagnosis.job_id,
                node=node,
                action=diagnosis.recovery.action,
                step=step,
                executor=self.rescue.executor,
                status=status,
                attempt=self.rescue.attempt,
                detail=detail,
            )
        )


def _words(found: PairwiseResult) -> str:
    words = f"faulty: {', '.join(found.faulty) or 'none'}"
    return f"{words}; undecided: {', '.join(found.undecided)}" if found.undecided else words


def message(failure: Failure, why: str) -> str:
    """To the user: cause, evidence, what to do, why gpulake does not do it. One line, no control characters."""
    diagnosis = failure.diagnosis
    job = f"Job {label(diagnosis.job_id)}" if diagnosis.job_id is not None else "The job"
    parts = [f"{job}: {label(diagnosis.reason)}. {label(diagnosis.cause, 400)}".rstrip(". ") + "."]
    for quote in diagnosis.evidence[:MOST_QUOTES]:
        where = f"{label(quote.file)} line" if quote.file else "Line"
        parts.append(f"{where} {quote.line:,}: {label(quote.text.strip(), MOST_QUOTED)}")
    if diagnosis.remedy:
        parts.append(f"What to do: {label(diagnosis.remedy, 400)}")
    parts.append(label(f"{why[:1].upper()}{why[1:]} (incident {failure.incident_id})."))
    return " ".join(parts)
