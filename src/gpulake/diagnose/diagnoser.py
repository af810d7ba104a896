"""A diagnosis with the lake: its telemetry and jobs, past incidents, learned rules, a model if one is configured."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.errors import LakeBusyError, UsageError
from gpulake.core.progress import Report
from gpulake.core.redaction import redacted, redacted_diagnosis
from gpulake.core.words import label, listed
from gpulake.diagnose.api import Answer, check_zone, diagnose
from gpulake.diagnose.cost import gpu_hours_lost
from gpulake.diagnose.logs.filters import Filters, shipped_filters
from gpulake.diagnose.rulebook.book import Rulebook, shipped, with_learned
from gpulake.diagnose.scheduler import NEEDED, SQL, is_of_another, job_of_file, record_of, with_record
from gpulake.diagnose.story.events import Story

if TYPE_CHECKING:
    from gpulake.diagnose.follow import Notice
    from gpulake.diagnose.many import Diagnosed, JobLog
    from gpulake.diagnose.telemetry import Samples
    from gpulake.lake import Lake, LakeReader

STANDARD_INPUT = "-"
ROOT = 0  # writes for every user


@dataclass(frozen=True)
class DiagnosisRequest:
    log: Path  # or -, for standard input
    telemetry: Path | None = None
    flight_recorder: Path | None = None
    job_id: str | None = None
    cluster_id: str | None = None
    run: int | None = None
    time_zone: str = "UTC"
    is_recorded: bool = True


class Diagnoser:
    """Diagnoses one log. Without a lake there are no past incidents, and nothing is recorded."""

    def __init__(self, config: Config, lake: Lake | None, clock: Clock, report: Report) -> None:
        self._config = config
        self._lake = lake
        self._clock = clock
        self._report = report
        self._notes: list[str] = []
        self._reader: Callable[[], LakeReader | None] = lambda: None

    def diagnose(self, request: DiagnosisRequest) -> Answer:
        with self._opening():
            request = self._identified(request)
            return self._completed(self._answered(request), request)

    def diagnose_many(self, logs: Sequence[JobLog], request: DiagnosisRequest) -> tuple[list[Diagnosed], str]:
        """One diagnosis a job, and why they were not recorded, if they were not."""
        from gpulake.diagnose.many import diagnose_many, joined
        from gpulake.diagnose.past.recording import record_many

        check_zone(request.time_zone)
        found = list(diagnose_many(logs, self._rulebook, request.time_zone, self._report))
        if self._lake is None:
            return found, ""
        if self._lake.builds.current() is not None:
            with self._lake.reading() as reader:
                if reader.tables() >= {*NEEDED, "silver_holdings"}:
                    found = joined(found, reader, request.cluster_id)
        if not request.is_recorded:
            return found, ""
        try:
            record_many(self._lake, self._clock, [(one.diagnosis, one.log.files[0]) for one in found])
        except LakeBusyError as error:
            return found, f"The diagnoses were not recorded: {error.message}."
        return found, ""

    def _identified(self, request: DiagnosisRequest) -> DiagnosisRequest:
        """With the job that the file is named for, unless it belongs to another user than the job."""
        named = job_of_file(request.log) if self._lake else None
        reader = self._reader() if request.job_id is not None or named is not None else None
        if reader is None:
            return request
        has_jobs = reader.tables() >= NEEDED
        record = record_of(reader, request.job_id or named or "", request.cluster_id) if has_jobs else None
        if request.job_id is not None and has_jobs and record is None and not self._is_known(reader, request):
            known = 'gpulake sql "SELECT cluster_id, job_id FROM silver_jobs" lists them'
            raise UsageError(f"no job {label(request.job_id)!r} in the lake", known)
        if request.job_id is not None or record is None:
            return request
        if is_of_another(request.log, record):
            return request
        return replace(request, job_id=named, cluster_id=record.cluster_id)

    @staticmethod
    def _is_known(reader: LakeReader, request: DiagnosisRequest) -> bool:
        from gpulake.diagnose.training_runs import find_run

        rows = reader.query(SQL["scheduled"], job_id=request.job_id, cluster_id=request.cluster_id)
        return rows.num_rows > 0 or find_run(reader, job_id=request.job_id, cluster_id=request.cluster_id) is not None

    def _scheduled(self, answer: Answer) -> Answer:
        """What the log leaves open, the record of the scheduler may know."""
        found = answer.diagnosis
        reader = self._reader() if found.job_id is not None else None
        if reader is None or found.job_id is None:
            return answer
        record = record_of(reader, found.job_id, found.cluster_id)
        if record is None:
            return answer
        decided, note = with_record(found, record)
        if decided.method == "scheduler":
            decided = replace(decided, gpu_hours_lost=gpu_hours_lost(decided, answer.story, reader))
        self._note(note)
        return replace(answer, diagnosis=decided)

    def prompt(self, request: DiagnosisRequest) -> str:
        """Exactly what a model would be sent. Nothing is sent or recorded."""
        from gpulake.diagnose.judge.judging import is_wanted
        from gpulake.diagnose.judge.prompt import prompt_for, prompt_text

        with self._opening():
            answer = self._answered(request)
        answer = self._recalled(answer, request, self._error_lines(answer))
        if not is_wanted(answer.diagnosis):
            return f"No model would be asked: it is {answer.diagnosis.reason} by {answer.diagnosis.method}.\n"
        return prompt_text(prompt_for(answer.diagnosis, answer.digests, self._config.judge))

    def follow(
        self, request: DiagnosisRequest, stall_seconds: float | None, wait: Callable[[float], None], is_until_end: bool
    ) -> Iterator[Notice]:
        """A diagnosis of the growing log is recalled and recorded like one of a whole log."""
        from gpulake.diagnose.follow import LogFollower, follow

        check_zone(request.time_zone)
        follower = LogFollower(
            request.log, self._rulebook, self._clock, request.time_zone, stall_seconds, self._filters
        )
        for notice in follow(follower, wait, is_until_end):
            if notice.answer is None:
                yield notice
            else:
                self._notes = []
                named = replace(notice.answer.diagnosis, job_id=request.job_id, cluster_id=request.cluster_id)
                with self._opening():
                    answer = self._completed(replace(notice.answer, diagnosis=named), request)
                yield replace(notice, answer=answer)

    def _completed(self, answer: Answer, request: DiagnosisRequest) -> Answer:
        """Adds similar incidents and a model's verdict, and records the diagnosis."""
        quotes = tuple(replace(quote, text=redacted(quote.text)) for quote in self._error_lines(answer))
        answer = self._scheduled(replace(answer, diagnosis=self._owned(answer.diagnosis, request)))
        answer = replace(answer, diagnosis=self._trained(self._checked(answer.diagnosis)))
        answer = self._recalled(answer, request, quotes)
        diagnosis = redacted_diagnosis(self._judged(answer))
        if self._lake and request.is_recorded:
            from gpulake.diagnose.past.recording import record

            try:
                recorded = record(self._lake, self._clock, diagnosis, answer.digests, _subject(request, answer), quotes)
                diagnosis = replace(diagnosis, incident_id=recorded)
            except LakeBusyError as error:
                # A lake that cannot be written to does not prevent the answer.
                self._note(f"The diagnosis was not recorded: {error.message}.")
        return replace(answer, diagnosis=diagnosis, notes=tuple(self._notes))

    def _owned(self, diagnosis: Diagnosis, request: DiagnosisRequest) -> Diagnosis:
        """Accepts the job that the log names if only that job's user can have written the log."""
        claimed = diagnosis.claimed_job_id
        if diagnosis.job_id or claimed is None:
            return diagnosis
        owner = _sole_writer(request.log) if self._lake else None
        reader = self._reader() if owner is not None else None
        if reader is None:
            return diagnosis
        from gpulake.lake.machines import user_of_job

        is_own = user_of_job(reader, claimed, diagnosis.cluster_id) == owner
        return replace(diagnosis, job_id=claimed) if is_own else diagnosis

    def _checked(self, diagnosis: Diagnosis) -> Diagnosis:
        """Compares the job and the node that the log names with the record of the scheduler."""
        job, node = label(diagnosis.job_id), diagnosis.node
        if diagnosis.is_job_disputed:
            claimed = label(diagnosis.claimed_job_id)
            self._note(f"The log says that it is of job {claimed}, and not of {job}: nothing is done for it unasked.")
        reader = self._reader() if diagnosis.job_id is not None and node is not None else None
        if reader is None or diagnosis.job_id is None or node is None:
            return diagnosis
        from gpulake.lake.machines import machines_of_job, named

        machines = machines_of_job(reader, diagnosis.job_id, diagnosis.cluster_id)
        if not machines:
            return diagnosis
        is_own = named(node, machines) is not None
        if not is_own:
            gives = f"the record of the scheduler gives job {job} {label(listed(machines))}"
            self._note(f"The log names {label(node)}, and {gives}: no node is acted on for it.")
        return replace(diagnosis, is_node_claimed=not is_own)

    def _trained(self, diagnosis: Diagnosis) -> Diagnosis:
        """With what the job's training run logged before its end."""
        reader = self._reader() if diagnosis.job_id is not None else None
        if reader is None:
            return diagnosis
        from gpulake.diagnose.training_runs import find_run, said

        run = find_run(reader, job_id=diagnosis.job_id, cluster_id=diagnosis.cluster_id)
        sentences = tuple(said(run, diagnosis.ended_at)) if run is not None else ()
        return replace(diagnosis, telemetry=(*diagnosis.telemetry, *sentences))

    def _recalled(self, answer: Answer, request: DiagnosisRequest, quotes: tuple[Quote, ...]) -> Answer:
        self._notes += answer.notes
        if self._lake is None:
            return answer
        from gpulake.diagnose.past.recall import with_recall
        from gpulake.diagnose.past.recording import incident_id

        standing = self._lake.incidents.standing()
        recurring = incident_id(answer.diagnosis, _subject(request, answer), standing)
        recalled = with_recall(replace(answer.diagnosis, incident_id=recurring), standing.values(), quotes)
        self._note(recalled.note)
        return replace(answer, diagnosis=replace(recalled.diagnosis, incident_id=""))

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Within it the lake is opened at most once, and only where a job or a node is named: that is expensive."""
        with ExitStack() as stack:

            @cache
            def opened() -> LakeReader | None:
                if self._lake is None or self._lake.builds.current() is None:
                    return None
                return stack.enter_context(self._lake.reading())

            self._reader = opened
            yield

    def _answered(self, request: DiagnosisRequest) -> Answer:
        def reader(diagnosis: Diagnosis, story: Story) -> LakeReader | None:
            return self._reader() if diagnosis.job_id or diagnosis.node or story.hosts else None

        def witness(diagnosis: Diagnosis, story: Story) -> Samples:
            from gpulake.diagnose.telemetry import Samples, samples_from_lake, window_of

            found = reader(diagnosis, story)
            return samples_from_lake(found, diagnosis, story, window_of(story)) if found is not None else Samples()

        def cost(diagnosis: Diagnosis, story: Story) -> float | None:
            return gpu_hours_lost(diagnosis, story, reader(diagnosis, story))

        return diagnose(
            request.log,
            telemetry=request.telemetry,
            flight_recorder=request.flight_recorder,
            run=request.run,
            time_zone=request.time_zone,
            rulebook=self._rulebook,
            filters=self._filters,
            job_id=request.job_id,
            cluster_id=request.cluster_id,
            witness=witness if self._lake else None,
            cost=cost,
            now=self._clock.now(),
            report=self._report,
        )

    def _judged(self, answer: Answer) -> Diagnosis:
        if not self._config.judge.is_on:
            return answer.diagnosis
        from gpulake.diagnose.judge.judging import ask_model

        verdict = ask_model(answer.diagnosis, answer.digests, self._config.judge)
        self._note(verdict.note)
        return verdict.diagnosis

    def _error_lines(self, answer: Answer) -> tuple[Quote, ...]:
        """The lines by which incidents are recalled; without a lake none are needed."""
        if self._lake is None:
            return ()
        from gpulake.diagnose.past.recall import error_lines

        return error_lines([line for digest in answer.digests for line in digest.lines], self._rulebook)

    @cached_property
    def _rulebook(self) -> Rulebook:
        if self._lake is None:
            return shipped()
        from gpulake.diagnose.learn.learning import learned

        return with_learned(learned(self._lake, self._note))

    @cached_property
    def _filters(self) -> Filters:
        if self._lake is None:
            return shipped_filters()
        from gpulake.diagnose.learn.learning import learned_filters

        filters = learned_filters(self._lake, self._note)
        return Filters((*shipped_filters().filters, *filters)) if filters else shipped_filters()

    def _note(self, text: str) -> None:
        if text and text not in self._notes:
            self._notes.append(text)


def _subject(request: DiagnosisRequest, answer: Answer) -> str:
    """A log is known by its path; standard input by the hash of its lines."""
    if str(request.log) != STANDARD_INPUT:
        from gpulake.diagnose.past.recording import subject_of

        return subject_of(request.log)
    words = hashlib.sha256()
    for digest in answer.digests:
        for line in digest.lines:
            words.update(f"{line.text}\n".encode(errors="replace"))
    return f"{STANDARD_INPUT} {words.hexdigest()[:16]}"


def _sole_writer(log: Path) -> str | None:
    """The owner of a log, where no other user can write to it; else None. Of a folder, with all files in it."""
    try:
        paths = [log, *(log.rglob("*") if log.is_dir() else ())]
        entries = [os.lstat(path) for path in paths]
        owners = {entry.st_uid for entry in entries}
        is_open = any(entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for entry in entries)
        is_plain = all(stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode) for entry in entries)
        if len(owners) != 1 or is_open or not is_plain or owners == {ROOT}:
            return None
        return pwd.getpwuid(owners.pop()).pw_name
    except (OSError, KeyError):
        return None
