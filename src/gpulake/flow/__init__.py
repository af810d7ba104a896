"""The order of the rooms. Each step takes the lake's lock, does one thing, and leaves a row in `runs`."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.clock import Clock, SystemClock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeBusyError, StepError
from gpulake.core.progress import Report, silent
from gpulake.core.tables import Table, bronze_tables, written_tables
from gpulake.core.types import Landing

if TYPE_CHECKING:
    from gpulake.act.alerts.sending import Drained
    from gpulake.act.audit import AuditRow
    from gpulake.act.execution import Rescue
    from gpulake.act.nudges import Nudge
    from gpulake.act.recovery import Asked
    from gpulake.core.incidents import Incident
    from gpulake.diagnose.api import Answer
    from gpulake.diagnose.follow import Notice
    from gpulake.flow.building import BuildResult
    from gpulake.flow.diagnosing import Diagnosing, Question
    from gpulake.flow.order import Work
    from gpulake.flow.repairing import Repair
    from gpulake.lake import Lake
    from gpulake.lake.undo import Undone
    from gpulake.replay.exports import Exported
    from gpulake.replay.exports.opendc import OpendcExport
    from gpulake.replay.workload import Clockwork
    from gpulake.show.efficiency import Card
    from gpulake.show.pai.study import Study

TEST_RESULTS = """
SELECT status, name, "table", "column", failures, seconds, build_id FROM test_results
ORDER BY CASE status WHEN 'fail' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, "table", name
"""
RETRY_WAITS_SECONDS = (1.0, 5.0)


def known_tables() -> list[Table]:
    """Every table that a lake may hold, whoever makes it."""
    from gpulake.model.plan import shipped_plan

    built = (model.as_table() for model in shipped_plan().models)
    return [*bronze_tables().values(), *built, *written_tables().values()]


@dataclass(frozen=True)
class RefreshResult:
    landings: tuple[Landing, ...]
    unknown: tuple[str, ...]  # files of a folder that nobody recognises
    build: BuildResult
    report: Path | None


@dataclass
class Flow:
    """One command's run: its steps share a run id."""

    config: Config
    clock: Clock = field(default_factory=SystemClock)
    report: Report = silent
    wait: Callable[[float], None] = time.sleep
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @cached_property
    def lake(self) -> Lake:
        from gpulake.lake import Lake

        return Lake(self.config)

    def land(self, paths: Sequence[Path]) -> tuple[tuple[Landing, ...], tuple[str, ...]]:
        """What landed (or had landed before), and the files of a folder that nobody recognises."""
        from gpulake.land.landing import land

        self.lake.create()
        with self._step("land") as detail, self.lake.writing():
            result = land(self.lake, paths, self.clock, self.report)
            detail["files"] = len(result.landings)
            detail["new_files"] = sum(landing.is_new for landing in result.landings)
            detail["rows_landed"] = sum(landing.rows_landed for landing in result.landings if landing.is_new)
            detail["rows_quarantined"] = sum(landing.rows_quarantined for landing in result.landings if landing.is_new)
        return result.landings, result.unknown

    def undo(self, words: Sequence[str], is_dry_run: bool = False) -> list[Undone]:
        """Takes back what landed under these ids or paths; the next build does without."""
        from gpulake.lake.undo import Undone, named_landings, take_back

        self.lake.open()
        if is_dry_run:
            return [Undone(landing, None) for landing in named_landings(self.lake, words)]
        with self._step("undo") as detail, self.lake.writing():
            undone = take_back(self.lake, named_landings(self.lake, words), self.clock)
            detail["landing_ids"] = [one.landing.landing_id for one in undone]
            detail["sources"] = [one.landing.source for one in undone]
            detail["rows_taken_back"] = sum(one.landing.rows_landed for one in undone)
        return undone

    def repair(self, is_dry_run: bool = False, may_drop: bool = False) -> tuple[list[Repair], str]:
        """What is damaged, and what is or would be done about it; the build that was made of what there is then."""
        from gpulake.flow.repairing import Repairing

        self.lake.open()
        repairing = Repairing(self.lake, self.clock)
        if is_dry_run:
            return repairing.repair(is_dry_run, may_drop)[0], ""
        with self._step("repair") as detail, self.lake.writing():
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
    ) -> BuildResult:
        """Silver and gold from what landed, tested, scored, and swapped in whole; without the sources named so."""
        from gpulake.flow.building import Building, build_order
        from gpulake.lake.undo import named_landings

        self.lake.open()
        with self.lake.writing():
            order = build_order(select, is_forced, is_dbt, model, named_landings(self.lake, without))
            result = Building(self.lake, self.config, self.clock, self.report, self._step).build(order)
        # The build is published either way; another process that updates incidents now does it for this one, too.
        with suppress(LakeBusyError):
            self.update_incidents()
        return result

    def update_incidents(self) -> list[Incident]:
        """Findings of the current build become incidents, and what is over is resolved; what changed."""
        from gpulake.flow.incidents import update

        self.lake.open()
        with self._step("incidents") as detail:
            changes = update(self.lake, self.config, self.clock)
            detail.update(Counter(change.event for change in changes))
        return changes

    def send_alerts(self) -> Drained:
        """Sends what waits in the outbox, and what was to be queued and is not yet. What fails stays there."""
        from gpulake.flow.alerting import queue_alerts, send_alerts

        self.lake.open()
        with self._step("alerts") as detail:
            queue_alerts(self.lake, self.clock)
            drained = send_alerts(self.lake, self.clock)
            detail.update({name: value for name, value in asdict(drained).items() if name != "next_at"})
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
        with self._step("report", is_reader=True) as detail, self.lake.reading() as reader:
            self.report("writing the report", 0.9)
            write_report(reader, path)
            detail["path"] = str(path)

    def efficiency_card(
        self, user: str | None = None, cluster: str | None = None, days: int | None = None, path: Path | None = None
    ) -> Card:
        """What a user or a cluster held, used and could save; as a page, too, where a path is given."""
        from gpulake.show.efficiency import Scope, efficiency_card
        from gpulake.show.report import write_card

        self.lake.open()
        with self._step("report", is_reader=True) as detail:
            with self.lake.reading() as reader:
                card = efficiency_card(reader, self.config, Scope(user, cluster=cluster, days=days))
            if path:
                write_card(card, path)
                detail["path"] = str(path)
        return card

    def nudges(
        self, cluster: str | None = None, at: datetime | None = None, is_executed: bool = False
    ) -> tuple[Nudge, ...]:
        """What is due for those who hold GPUs and leave them empty; with is_executed it is done, and kept in mind."""
        from gpulake.act.cancel import cancel
        from gpulake.act.holders import read_holders, read_journal
        from gpulake.act.nudges import carry_out, plan, summary

        rules = self.config.nudges
        self.lake.open()
        # Whoever acts writes: two at a time would act twice.
        alone = self.lake.writing() if is_executed else nullcontext()
        with self._step("nudge", is_reader=not is_executed) as detail, alone:
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
        """What brings a dead job back; with is_executed it is done, and kept in mind."""
        from gpulake.act.recovery import Recovering

        self.lake.open()
        alone = self.lake.writing() if asked.is_executed else nullcontext()
        with self._step("recover", is_reader=not asked.is_executed) as detail, alone:
            rescue = Recovering(self.lake, self.config, self.clock, self.run_id).recover(asked)
            statuses = {taken.step.step: taken.status for taken in rescue.steps}
            detail.update(incident_id=rescue.failure.incident_id, is_executed=asked.is_executed, steps=statuses)
        return rescue

    def recovered(self, incident: str | None = None) -> list[AuditRow]:
        """The audit trail, dry runs included; of the incidents whose id begins like this."""
        from gpulake.act.audit import read_rows

        rows = read_rows(self.lake.open().journal("recoveries", is_strict=True))
        return [row for row in rows if row.incident_id.startswith(incident or "")]

    def diagnose(self, question: Question) -> Answer:
        """Why a job died. Where there is a lake, it is asked, and keeps what was found."""
        if not self.config.has_lake:
            return self._diagnosing(None).diagnose(question)
        self.lake.open()
        with self._step("diagnose", is_reader=True) as detail:
            answer = self._diagnosing(self.lake).diagnose(question)
            detail.update(verdict=answer.diagnosis.verdict, reason=answer.diagnosis.reason)
            if answer.diagnosis.incident_id:
                self._queue_alerts()
        return answer

    def _queue_alerts(self) -> None:
        from gpulake.flow.alerting import queue_alerts

        # Who may only read the lake can leave nothing in its outbox.
        with suppress(LakeBusyError):
            queue_alerts(self.lake, self.clock)

    def prompt(self, question: Question) -> str:
        """What a configured model would be sent about a log."""
        return self._diagnosing(self.lake.open() if self.config.has_lake else None).prompt(question)

    def follow(
        self,
        path: Path,
        time_zone: str = "UTC",
        stall_seconds: float | None = None,
        is_until_end: bool = False,
        is_recorded: bool = True,
        job_id: str | None = None,
        cluster_id: str | None = None,
    ) -> Iterator[Notice]:
        """What happens in a log that grows, as it happens. What it finds is kept where there is a lake."""
        diagnosing = self._diagnosing(self.lake.open() if self.config.has_lake else None)
        return diagnosing.follow(
            path, time_zone, stall_seconds, self.wait, is_until_end, is_recorded, job_id, cluster_id
        )

    def _diagnosing(self, lake: Lake | None) -> Diagnosing:
        from gpulake.flow.diagnosing import Diagnosing

        return Diagnosing(self.config, lake, self.clock, self.report)

    def write_study(self, path: Path) -> Study:
        """The published study of the PAI trace, from this lake."""
        from gpulake.detect.durations import score_durations
        from gpulake.show.pai.study import opened, study, write_study

        self.lake.open()
        with self._step("study", is_reader=True) as detail, self.lake.reading() as reader:
            trace = opened(reader)
            self.report("foretelling run times", 0.1)
            durations = score_durations(reader, trace.cluster)
            self.report("measuring figures", 0.4)
            found = study(trace, durations)
            self.report("writing the page", 0.9)
            write_study(found, path)
            detail["path"] = str(path)
        return found

    def import_opendc(self, folders: Sequence[Path], name: str | None = None) -> Mapping[str, tuple[Landing, ...]]:
        """What landed of each workload, or had landed before."""
        from gpulake.land.workloads import import_opendc

        self.lake.create()
        with self._step("import") as detail, self.lake.writing():
            landed = import_opendc(self.lake, folders, name, self.clock, self.report)
            detail["workloads"] = list(landed)
        return landed

    def export_run(self, run: Path, export: OpendcExport, clock: Clockwork, folder: Path) -> Exported:
        """A collected run as a workload for a simulator. It needs no lake, and leaves no row in one."""
        from gpulake.replay.from_run import from_run

        self.report("reading the run", 0.1)
        return export.write(from_run(run, clock, self.config.gpu_types), folder)

    def export_lake(
        self,
        cluster: str | None,
        user: str | None,
        days: tuple[date | None, date | None],
        export: OpendcExport,
        clock: Clockwork,
        folder: Path,
    ) -> Exported:
        """Jobs of the lake, or a workload that was imported, for a simulator."""
        from gpulake.replay.exporting import export_lake

        self.lake.open()
        with self._step("export", is_reader=True) as detail, self.lake.reading() as reader:
            self.report("writing the workload", 0.1)
            exported = export_lake(reader, cluster, user, days, export, clock, self.config.gpu_types, folder)
            detail.update(path=str(folder), tasks=exported.summary["tasks"])
        return exported

    def run(self, work: Work, call: Callable[[str, Callable[[], Any]], Any] = lambda _, act: act()) -> RefreshResult:
        """The steps that have work, in their order. `call` runs each by its name: plainly, retried, or as a task."""
        from gpulake.flow.order import STEPS

        steps = [step for step in STEPS if step.has_work(self, work)]
        done: dict[str, Any] = {}
        drawn = self.report
        for place, step in enumerate(steps):
            self.report = partial(_part, drawn, place, len(steps))
            done[step.name] = call(step.name, partial(step.run, self, work))
        landings, unknown = done.get("land", ((), ()))
        return RefreshResult(landings, unknown, done["build"], work.report_path)

    def refresh(
        self,
        paths: Sequence[Path],
        report_path: Path | None,
        select: Sequence[str] = (),
        is_forced: bool = False,
        without: Sequence[str] = (),
    ) -> RefreshResult:
        """Land, build and report. Finished work is skipped, so an interrupted run is resumed by another."""
        from gpulake.flow.order import Work

        return self.run(Work(paths, report_path, select, is_forced, without=without), self._retried)

    def demo(self, trace: Path, report_path: Path, jobs: int, seed: int) -> RefreshResult:
        """A refresh of a generated trace, with telemetry of some of its nodes."""
        from gpulake.synth import write_trace

        write_trace(trace, jobs=jobs, seed=seed, has_telemetry=True, report=self.report)
        return self.refresh([trace], report_path)

    def _step(self, name: str, is_reader: bool = False) -> AbstractContextManager[dict[str, object]]:
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


def _part(report: Report, place: int, steps: int, what: str, share: float) -> None:
    """The share of one step, as a share of all of them."""
    report(what, (place + share) / steps)
