"""The order of the rooms. Each step takes the lake's lock, does one thing, and leaves a row in `runs`."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.clock import Clock, SystemClock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeBusyError, StepError
from gpulake.core.progress import Report, silent
from gpulake.core.tables import Table, bronze_tables, written_tables
from gpulake.core.types import LandResult
from gpulake.flow.collected import parsed_run

if TYPE_CHECKING:
    from gpulake.act.alerts.sending import Drained
    from gpulake.act.audit import AuditRow
    from gpulake.act.execution import Rescue
    from gpulake.act.nudges import Nudge
    from gpulake.act.recovery import Asked
    from gpulake.act.returning import Returned
    from gpulake.core.incidents import Incident
    from gpulake.diagnose.api import Answer
    from gpulake.diagnose.diagnoser import Diagnoser, DiagnosisRequest
    from gpulake.diagnose.follow import Notice
    from gpulake.diagnose.learn.learning import Learned, State
    from gpulake.diagnose.many import Diagnosed, JobLog
    from gpulake.flow.building import BuildResult
    from gpulake.flow.order import RefreshResult, Work
    from gpulake.flow.pulling import PullResult
    from gpulake.lake import Lake
    from gpulake.lake.undo import Undone
    from gpulake.land.repairing import Repair
    from gpulake.pull import Source
    from gpulake.show.efficiency import Card
    from gpulake.show.pai.study import Study

TEST_RESULTS = """
SELECT status, name, "table", "column", failures, seconds, build_id FROM test_results
ORDER BY CASE status WHEN 'fail' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, "table", name
"""
RETRY_WAITS_SECONDS = (1.0, 5.0)


def known_tables() -> list[Table]:
    """Every table that a lake may hold."""
    from gpulake.model.plan import shipped_plan

    built = (model.as_table() for model in shipped_plan().models)
    return [*bronze_tables().values(), *built, *written_tables().values()]


@dataclass
class Flow:
    """One command's run: its steps share a run id."""

    config: Config
    clock: Clock = field(default_factory=SystemClock)
    report: Report = silent
    wait: Callable[[float], None] = time.sleep
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    notes: list[str] = field(default_factory=list)  # what the user is to be told at the end

    @cached_property
    def lake(self) -> Lake:
        from gpulake.lake import Lake

        return Lake(self.config)

    @property
    def default_report(self) -> Path:
        return self.config.lake / "report.html"

    def land(
        self, paths: Sequence[Path], is_replacing: bool = False, named: Mapping[str, str] | None = None
    ) -> LandResult:
        """A file that cannot land costs only itself; that none can is an error.

        Its rows are added to those of earlier files of the same name, or replace them. `named` are
        constants that the user gives, such as the job of a training run.
        """
        from gpulake.flow.compacting import compact
        from gpulake.land.landing import land

        self.lake.create()
        with self.step("land") as detail, self.lake.writing():
            result = land(self.lake, paths, self.clock, self.report, named, is_replacing=is_replacing)
            detail["files"] = len(result.landings)
            detail["failed"] = [failed.reason for failed in result.failed]
            detail["new_files"] = sum(landing.is_new for landing in result.landings)
            detail["rows_landed"] = sum(landing.rows_landed for landing in result.landings if landing.is_new)
            detail["rows_quarantined"] = sum(landing.rows_quarantined for landing in result.landings if landing.is_new)
            compact(self, {landing.table for landing in result.landings if landing.is_new})
        return result

    def pull(
        self, source: Source, since: datetime | None = None, until: datetime | None = None, is_again: bool = False
    ) -> PullResult:
        """Lands what a live source has and the lake does not, piece by piece."""
        from gpulake.flow.pulling import pull

        self.lake.create()
        with self.step("pull") as detail:
            result = pull(self, source, since, until, is_again)
            detail.update(source=source.name, pieces=result.pieces, rows_landed=result.rows_landed)
        return result

    def undo(self, words: Sequence[str], is_dry_run: bool = False) -> list[Undone]:
        """Takes landings back, by their ids or paths; the next build leaves them out."""
        from gpulake.lake.undo import Undone, named_landings, take_back

        self.lake.open()
        if is_dry_run:
            return [Undone(landing, ()) for landing in named_landings(self.lake, words, is_last=True)]
        with self.step("undo") as detail, self.lake.writing():
            undone = take_back(self.lake, named_landings(self.lake, words, is_last=True), self.clock)
            detail["landing_ids"] = [one.landing.landing_id for one in undone]
            detail["sources"] = [one.landing.source for one in undone]
            detail["rows_taken_back"] = sum(one.landing.rows_landed for one in undone)
        return undone

    def repair(self, is_dry_run: bool = False, may_drop: bool = False) -> tuple[list[Repair], str]:
        """What is damaged, and what is or would be done about it; the id of the build made afterwards, if any."""
        from gpulake.land.repairing import Repairing

        self.lake.open()
        repairing = Repairing(self.lake, self.clock)
        if is_dry_run:
            return repairing.repair(is_dry_run, may_drop)[0], ""
        with self.step("repair") as detail, self.lake.writing():
            repairs, needs_build = repairing.repair(is_dry_run, may_drop)
            detail["repairs"] = [f"{one.path}: {one.damage}: {one.action}: {one.status}" for one in repairs]
        return repairs, self.build(is_forced=True).build_id if needs_build else ""

    def build(
        self,
        select: Sequence[str] = (),
        is_forced: bool = False,
        is_dbt: bool = False,
        model: Path | None = None,
        without: Sequence[str] = (),
        spark_master: str = "",
    ) -> BuildResult:
        """Silver and gold from what landed, tested, scored and published at once; `without` leaves sources out."""
        from gpulake.flow.building import Building, build_order
        from gpulake.flow.compacting import compact
        from gpulake.flow.settings import keep_settings
        from gpulake.lake.undo import named_landings

        self.lake.open()
        keep_settings(self)
        with self.lake.writing():
            left_out = named_landings(self.lake, without)
            order = build_order(self.lake, select, is_forced, is_dbt, model, left_out, spark_master)
            result = Building(self.lake, self.config, self.clock, self.report, self.step).build(order)
            compact(self, bronze_tables() if result.is_new else ())
        # The build is published either way; another process that updates incidents now does it for this one, too.
        with suppress(LakeBusyError):
            self.update_incidents()
        return result

    def update_incidents(self) -> list[Incident]:
        """Findings of the current build become incidents, and incidents that are over are resolved. The changes."""
        from gpulake.flow.incidents import update

        self.lake.open()
        with self.step("incidents") as detail:
            changes = update(self.lake, self.config, self.clock)
            detail.update(Counter(change.event for change in changes))
        return changes

    def send_alerts(self) -> Drained:
        """Queues what is due and sends what is queued. What fails stays in the outbox."""
        from gpulake.flow.alerting import counts, queue_alerts, send_alerts

        self.lake.open()
        with self.step("alerts") as detail:
            queue_alerts(self.lake, self.clock)
            drained = send_alerts(self.lake, self.clock)
            detail.update(counts(drained))
        return drained

    @property
    def sends_alerts_at_once(self) -> bool:
        return bool(self.config.alerts.sinks) and self.config.alerts.is_sent_at_once

    def send_alerts_if_free(self) -> None:
        """Another process that is sending sends these, too."""
        with suppress(LakeBusyError):
            self.send_alerts()

    def test_results(self) -> list[dict[str, Any]]:
        """The data tests of the last build, published or not, failures first."""
        with self.lake.open().reading() as reader:
            found: list[dict[str, Any]] = reader.query(TEST_RESULTS).to_pylist()
        return found

    def write_report(self, path: Path) -> None:
        from gpulake.show.report import write_report

        self.lake.open()
        with self.step("report", is_reader=True) as detail, self.lake.reading() as reader:
            self.report("writing the report", 0.9)
            write_report(reader, path)
            detail["path"] = str(path)

    def efficiency_card(
        self,
        user: str | None = None,
        cluster: str | None = None,
        days: int | None = None,
        path: Path | None = None,
        account: str | None = None,
    ) -> Card:
        """What a user, an account or a cluster held, used and could save; also as a page, where a path is given."""
        from gpulake.show.efficiency import Scope, efficiency_card
        from gpulake.show.report import write_card

        self.lake.open()
        with self.step("report", is_reader=True) as detail:
            with self.lake.reading() as reader:
                card = efficiency_card(reader, self.config, Scope(user, cluster=cluster, days=days, account=account))
            if path:
                write_card(card, path)
                detail["path"] = str(path)
        return card

    def nudges(
        self, cluster: str | None = None, at: datetime | None = None, is_executed: bool = False
    ) -> tuple[Nudge, ...]:
        """Warnings and cancellations due for jobs that hold GPUs without using them; is_executed carries them out."""
        from gpulake.act.holders import read_holders, read_journal
        from gpulake.act.nudges import cancel, carry_out, plan, summary

        rules = self.config.nudges
        self.lake.open()
        # Two processes at a time would act twice.
        alone = self.lake.writing() if is_executed else nullcontext()
        with self.step("nudge", is_reader=not is_executed) as detail, alone:
            with self.lake.reading() as reader:
                holders = read_holders(reader, self.config, cluster, at)
                journal = read_journal(reader)
            due = plan(holders, journal, rules, self.clock.now())
            if is_executed:
                due = carry_out(
                    due, self.lake.record_nudge, partial(cancel, rules.cancel_command), self.run_id, self.clock.now
                )
            detail.update(summary(due), is_executed=is_executed)
        return due

    def recover(self, asked: Asked) -> Rescue:
        """The plan that restarts a failed job; is_executed carries it out."""
        from gpulake.flow.recovering import recover

        return recover(self.lake, self.clock, asked, self.run_id)

    def uncordon(self, node: str, is_executed: bool = False) -> Returned:
        """The check of a node that gpulake cordoned, and its return to service if it passes."""
        from gpulake.flow.recovering import uncordon

        return uncordon(self.lake, self.clock, node, is_executed)

    def recovered(self, incident: str | None = None) -> list[AuditRow]:
        """The audit trail, dry runs included; of the incidents whose id begins like this."""
        from gpulake.act.audit import read_rows

        rows = read_rows(self.lake.open().journal("recoveries", is_strict=True))
        return [row for row in rows if row.incident_id.startswith(incident or "")]

    def diagnose(self, request: DiagnosisRequest) -> Answer:
        """Why a job died. Where there is a lake, it is consulted, and the diagnosis recorded in it."""
        diagnoser = self._diagnoser()
        with parsed_run(request.telemetry) as telemetry:
            request = replace(request, telemetry=telemetry)
            if not self.config.has_lake:
                return diagnoser.diagnose(request)
            with self.step("diagnose", is_reader=True) as detail:
                answer = diagnoser.diagnose(request)
                self._note_diagnosis(answer, detail)
            return answer

    def diagnose_many(self, logs: Sequence[JobLog], request: DiagnosisRequest) -> tuple[list[Diagnosed], str]:
        """Why many jobs died, and why that was not recorded, if it was not."""
        diagnoser = self._diagnoser()
        if not self.config.has_lake:
            return diagnoser.diagnose_many(logs, request)
        with self.step("diagnose", is_reader=True) as detail:
            found, note = diagnoser.diagnose_many(logs, request)
            detail.update(logs=len(found), failed=sum(one.diagnosis.verdict == "failed" for one in found))
        return found, note

    def _note_diagnosis(self, answer: Answer, detail: dict[str, object]) -> None:
        from gpulake.flow.alerting import queue_alerts

        detail.update(verdict=answer.diagnosis.verdict, reason=answer.diagnosis.reason)
        if answer.diagnosis.incident_id:
            # A user who may only read the lake cannot queue an alert in it.
            with suppress(LakeBusyError):
                queue_alerts(self.lake, self.clock)

    def prompt(self, request: DiagnosisRequest) -> str:
        """What a configured model would be sent about a log."""
        return self._diagnoser().prompt(request)

    def follow(
        self, request: DiagnosisRequest, stall_seconds: float | None = None, is_until_end: bool = False
    ) -> Iterator[Notice]:
        """What happens in a growing log, as it happens. A diagnosis is recorded where there is a lake."""
        for notice in self._diagnoser().follow(request, stall_seconds, self.wait, is_until_end):
            if notice.answer and self.config.has_lake:
                with self.step("diagnose", is_reader=True) as detail:
                    self._note_diagnosis(notice.answer, detail)
            yield notice

    def _diagnoser(self) -> Diagnoser:
        from gpulake.diagnose.diagnoser import Diagnoser

        return Diagnoser(self.config, self.lake.open() if self.config.has_lake else None, self.clock, self.report)

    @contextmanager
    def changing_rules(self) -> Iterator[None]:
        """A change of the learned rules: creates the lake where there is none, and leaves a row in `runs`."""
        self.lake.create()
        with self.step("rules"):
            yield

    def decide_rule(self, one: Learned, state: State, by: str, note: str = "", may_silence: bool = False) -> Learned:
        """Approves, rejects or retires a learned rule."""
        from gpulake.diagnose.learn.learning import decide

        with self.changing_rules():
            return decide(self.lake, self.clock, one, state, by, note, may_silence)

    def write_study(self, path: Path) -> Study:
        """The published study of the PAI trace, from this lake."""
        from gpulake.replay.predictions import score_durations
        from gpulake.show.pai.study import opened, study, write_study

        self.lake.open()
        with self.step("study", is_reader=True) as detail, self.lake.reading() as reader:
            trace = opened(reader)
            self.report("predicting run times", 0.1)
            durations = score_durations(reader, trace.cluster)
            self.report("measuring figures", 0.4)
            found = study(trace, durations)
            self.report("writing the page", 0.9)
            write_study(found, path)
            detail["path"] = str(path)
        return found

    def run(self, work: Work, call: Callable[[str, Callable[[], Any]], Any] = lambda _, act: act()) -> RefreshResult:
        """The steps that have work, in their order. `call` runs each by its name: plainly, retried, or as a task."""
        from gpulake.flow.order import run_steps

        return run_steps(self, work, call)

    def refresh(
        self,
        paths: Sequence[Path],
        report_path: Path | None,
        select: Sequence[str] = (),
        is_forced: bool = False,
        without: Sequence[str] = (),
        is_replacing: bool = False,
    ) -> RefreshResult:
        """Land, build and report. Finished work is skipped, so an interrupted run is resumed by another."""
        from gpulake.flow.order import Work

        work = Work(paths, report_path, select, is_forced, without=without, is_replacing=is_replacing)
        return self.run(work, self._retried)

    def step(self, name: str, is_reader: bool = False) -> AbstractContextManager[dict[str, object]]:
        """Leaves a row in `runs`; yields its detail."""
        from gpulake.flow.runs import recorded

        return recorded(self.lake, self.clock, name, self.run_id, is_reader)

    def _retried(self, name: str, act: Callable[[], Any]) -> Any:
        """Every step is idempotent: it leaves the lake as it was, or as it should be."""
        for seconds in (*RETRY_WAITS_SECONDS, None):
            try:
                return act()
            except LakeBusyError as error:
                if seconds is None:
                    raise StepError(f"step {name} failed: {error.message}", error.hint) from error
                self.wait(seconds)
            except GpulakeError as error:
                raise StepError(f"step {name} failed: {error.message}", error.hint) from error
        raise AssertionError("unreachable")
