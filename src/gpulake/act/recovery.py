"""Recovering from an incident: what the lake knows of it, the plan, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from gpulake.act.audit import DRY_RUN, AuditRow, is_complete, is_real, last_of_each, last_recovery, read_rows
from gpulake.act.budget import Budget, breaker, budget, made_progress, restarts_of
from gpulake.act.checkpoints import Choice, last_good
from gpulake.act.commands import SAFE, Outcome, ask, run, small_environment
from gpulake.act.execution import Execution, Rescue, in_doubt, prepare, recovery_id
from gpulake.act.failures import Failure, is_same, later_run, read_failure
from gpulake.act.policy import Choose, Situation, decide
from gpulake.act.recoveries import RECOVERIES, Executor, Order, safe_node
from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import ActError, InputError
from gpulake.core.placeholders import filled
from gpulake.lake import Lake
from gpulake.lake.machines import distinct, machines_of_cluster, machines_of_job, named


@dataclass(frozen=True)
class Asked:
    incident: str  # its id, or the beginning of it
    executor: str | None = None
    is_executed: bool = False
    is_again: bool = False  # repeat what was, or may have been, done
    checkpoints: Path | None = None
    nodes: tuple[str, ...] = ()  # of the job, as the person says
    job_id: str | None = None


def run_small(arguments: Sequence[str], most_seconds: float) -> Outcome:
    return run(arguments, most_seconds, small_environment())


@dataclass(frozen=True)
class Recovering:
    lake: Lake
    config: Config
    clock: Clock
    run_id: str
    run: Callable[[Sequence[str], float], Outcome] = run_small
    stopped: Callable[[], str] = str  # why no step may be taken any more

    def recover(self, asked: Asked) -> Rescue:
        """The plan; with is_executed it is carried out."""
        settings = self.config.recoveries
        name = asked.executor or settings.executor
        executor = RECOVERIES.get(name)(settings)
        nodes = tuple(map(safe_node, asked.nodes))
        standing, diagnoses = self.lake.incidents.standing(), self.lake.journal("diagnoses")
        failure = read_failure(standing, diagnoses, asked.incident, asked.job_id)
        rows = read_rows(self.lake.journal("recoveries", is_strict=True))
        audit = [row for row in rows if is_real(row)]
        earlier = last_recovery(audit, failure.incident_id)
        done_at = earlier[-1].stepped_at if is_complete(earlier) else None
        situation = self._situation(failure, audit, asked, nodes, executor)
        if not asked.is_again:
            stale = self._stale(failure, audit, later_run(standing, diagnoses, failure))
            situation = replace(situation, stale=stale)
        attempt = earlier[0].attempt if earlier else situation.budget.attempt
        if done_at and asked.is_again:
            earlier, done_at, attempt = [], None, max(attempt + 1, situation.budget.attempt)
        plan = decide(failure, situation)
        rescue = Rescue(
            earlier[0].recovery_id if earlier else recovery_id(failure, attempt),
            attempt,
            name,
            failure,
            plan,
            situation.budget,
            situation.breaker,
            prepare(failure, plan, executor, attempt),
            done_at=done_at,
            in_doubt=in_doubt(earlier),
        )
        if not asked.is_executed or done_at or not plan.steps:
            return rescue
        execution = Execution(
            rescue,
            executor,
            settings,
            self._record,
            self.run,
            self.clock.now,
            self.run_id,
            earlier=last_of_each(earlier),
            stopped=self.stopped,
        )
        if name == DRY_RUN:
            return execution.plan_only([row for row in rows if not is_real(row)])
        if rescue.in_doubt and not asked.is_again:
            raise ActError(rescue.in_doubt, "look at the cluster; take it again with --again")
        return execution.carry_out()

    def _situation(
        self, failure: Failure, audit: list[AuditRow], asked: Asked, nodes: tuple[str, ...], executor: Executor
    ) -> Situation:
        settings, cluster = self.config.recoveries, failure.diagnosis.cluster_id
        folder = self._folder(failure, asked)
        choose = _chooser(folder)
        every = _of_job(audit, failure)
        # Steps taken for this incident are no sign of a repeated failure.
        past = [row for row in every if row.incident_id != failure.incident_id]
        machines = self._machines(cluster)
        total = len(machines) or settings.cluster_nodes or len(nodes)
        recorded = self._recorded(failure, executor, nodes)
        rolled_back = [row for row in restarts_of(every if asked.is_again else past) if row.step == "rollback"]
        return Situation(
            settings,
            self._budget(failure, past, choose),
            breaker(audit, cluster, total, self.clock.now(), settings),
            choose,
            job_nodes=nodes or distinct(recorded),
            recorded=recorded,
            inventory=machines,
            rolled_back_to=tuple(str(row.detail.get("checkpoint")) for row in rolled_back),
        )

    def _stale(self, failure: Failure, audit: list[AuditRow], later: str) -> str:
        """Why the job may be running already: it was restarted since, ran again, or failed days ago."""
        others = [row for row in _of_job(audit, failure) if row.incident_id != failure.incident_id]
        for row in restarts_of(others):
            if row.stepped_at > failure.failed_at:
                when = f"{row.stepped_at:%Y-%m-%d %H:%M:%S} UTC"
                return f"the job was restarted at {when} for incident {row.incident_id}, after this failure"
        if later:
            return f"the job ran again since, and that run is incident {later}"
        hours = self.config.recoveries.stale_after_hours
        if self.clock.now() - failure.opened_at > timedelta(hours=hours):
            return f"the incident was opened more than {hours:g} hours ago"
        return ""

    def _budget(self, failure: Failure, past: list[AuditRow], choose: Choose) -> Budget:
        settings, restarts = self.config.recoveries, restarts_of(past)
        last = restarts[-1] if restarts else None
        choice = choose() if last else None
        newest = choice.newest if choice else None
        ran = failure.ran_seconds(last.stepped_at) if last else 0.0
        has_progress = made_progress(last, newest, choice is not None, ran, settings)
        return budget(past, failure.signature, has_progress, settings)

    def _folder(self, failure: Failure, asked: Asked) -> Path | None:
        """A folder of the settings may be absent; one that was asked for must exist."""
        if asked.checkpoints is not None:
            if not asked.checkpoints.is_dir():
                raise InputError(f"no folder of checkpoints at {asked.checkpoints}", "name one with --checkpoints")
            return asked.checkpoints
        pattern, job = self.config.recoveries.checkpoints, failure.diagnosis.job_id or ""
        if not pattern or ("{" in pattern and (not SAFE.fullmatch(job) or "/" in job)):
            return None
        folder = Path(filled([pattern], {"job_id": job})[0])
        return folder if folder.is_dir() else None

    def _machines(self, cluster_id: str | None) -> frozenset[str]:
        if cluster_id is None or self.lake.builds.current() is None:
            return frozenset()
        with self.lake.reading() as reader:
            return machines_of_cluster(reader, cluster_id)

    def _recorded(self, failure: Failure, executor: Executor, nodes: tuple[str, ...]) -> frozenset[str]:
        """The nodes that the job ran on: by the lake, by the scheduler where the lake knows none or lacks a named node,
        else by the person. The log is not asked."""
        job, cluster = failure.diagnosis.job_id, failure.diagnosis.cluster_id
        if job is None or failure.doubt or failure.diagnosis.recovery.action != "cordon_node_and_restart":
            return frozenset()
        recorded: frozenset[str] = frozenset()
        if self.lake.builds.current() is not None:
            with self.lake.reading() as reader:
                recorded = machines_of_job(reader, job, cluster)
        named_nodes = nodes or ((failure.diagnosis.node,) if failure.diagnosis.node else ())
        if not (named_nodes or recorded) or any(named(node, recorded) is None for node in named_nodes):
            recorded |= self._by_scheduler(executor, failure)
        return recorded or frozenset(nodes)

    def _by_scheduler(self, executor: Executor, failure: Failure) -> frozenset[str]:
        """Empty where the scheduler cannot be asked or its answer cannot be read."""
        order = Order(failure.incident_id, 1, failure.diagnosis.job_id, failure.diagnosis.cluster_id)
        try:
            query = executor.nodes(order)
            if query is None:
                return frozenset()
            answer = ask(query.arguments, self.config.recoveries.command_seconds, small_environment())
            return frozenset(map(safe_node, query.read(answer or "")))
        except (ActError, ValueError):
            return frozenset()

    def _record(self, row: AuditRow) -> None:
        self.lake.append("recoveries", [asdict(row)])


def _of_job(audit: list[AuditRow], failure: Failure) -> list[AuditRow]:
    """A job without an id is known only by its incident."""
    job, cluster = failure.diagnosis.job_id, failure.diagnosis.cluster_id
    if job is None:
        return [row for row in audit if row.incident_id == failure.incident_id]
    return [row for row in audit if row.job_id == job and is_same(row.cluster_id, cluster)]


def _chooser(folder: Path | None) -> Choose:
    def choose(
        before: datetime | None = None, before_step: int | None = None, not_again: Collection[str] = ()
    ) -> Choice | None:
        return None if folder is None else last_good(folder, before, before_step, not_again)

    return choose
