"""Diagnosis with the lake: its telemetry and jobs, past incidents, learned rules, a model if one is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.progress import Report
from gpulake.diagnose.api import Answer, check_zone, diagnose
from gpulake.diagnose.cost import gpu_hours_lost
from gpulake.diagnose.logs.filters import Filter, Filters, shipped_filters
from gpulake.diagnose.past.recall import telling, with_recall
from gpulake.diagnose.past.recording import incident_id, record, subject_of
from gpulake.diagnose.rulebook.book import Rulebook, shipped, with_learned
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry import Samples, samples_from_lake, window_of

if TYPE_CHECKING:
    from gpulake.diagnose.follow import Notice
    from gpulake.lake import Lake, Reader

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Question:
    log: Path  # or -, for what is piped in
    telemetry: Path | None = None
    flight_recorder: Path | None = None
    job_id: str | None = None
    cluster_id: str | None = None
    run: int | None = None
    time_zone: str = "UTC"
    is_recorded: bool = True


class Diagnosing:
    """One log. Without a lake there is no past, and nothing is recorded."""

    def __init__(self, config: Config, lake: Lake | None, clock: Clock, report: Report) -> None:
        self._config = config
        self._lake = lake
        self._clock = clock
        self._report = report
        self._notes: list[str] = []

    def diagnose(self, question: Question) -> Answer:
        with ExitStack() as stack:
            answer = self._answered(question, stack)
        return self._completed(answer, question)

    def prompt(self, question: Question) -> str:
        """What a model would be sent, to the letter. Nothing is sent and nothing recorded."""
        from gpulake.diagnose.judge.judging import is_wanted
        from gpulake.diagnose.judge.prompt import prompt_for, shown

        with ExitStack() as stack:
            answer = self._answered(question, stack)
        answer = self._recalled(answer, question, self._telling(answer))
        if not is_wanted(answer.diagnosis):
            return f"No model would be asked: it is {answer.diagnosis.reason} by {answer.diagnosis.method}.\n"
        return shown(prompt_for(answer.diagnosis, answer.digests, self._config.judge))

    def follow(
        self,
        path: Path,
        time_zone: str,
        stall_seconds: float | None,
        wait: Callable[[float], None],
        is_until_end: bool,
        is_recorded: bool,
    ) -> Iterator[Notice]:
        """What is found is recalled and recorded as a diagnosis of the whole log would be."""
        from gpulake.diagnose.follow import Watch, follow

        check_zone(time_zone)
        question = Question(path, time_zone=time_zone, is_recorded=is_recorded)
        watch = Watch(path, self._rulebook, self._clock, time_zone, stall_seconds, self._filters)
        for notice in follow(watch, wait, is_until_end):
            if notice.answer is None:
                yield notice
            else:
                self._notes = []
                yield replace(notice, answer=self._completed(notice.answer, question))

    def _completed(self, answer: Answer, question: Question) -> Answer:
        """With what the past and a model say, and recorded."""
        told = self._telling(answer)
        answer = self._recalled(answer, question, told)
        diagnosis = self._judged(answer)
        if self._lake and question.is_recorded:
            named = record(self._lake, self._clock, diagnosis, answer.digests, self._subject(question), told)
            diagnosis = replace(diagnosis, incident_id=named)
        return replace(answer, diagnosis=diagnosis, notes=tuple(self._notes))

    def _recalled(self, answer: Answer, question: Question, told: tuple[Quote, ...]) -> Answer:
        self._notes += answer.notes
        if self._lake is None:
            return answer
        own = incident_id(answer.diagnosis, self._subject(question))
        rows = self._lake.journal("incident_events")
        recalled = with_recall(replace(answer.diagnosis, incident_id=own), rows, told)
        self._note(recalled.note)
        return replace(answer, diagnosis=replace(recalled.diagnosis, incident_id=""))

    def _answered(self, question: Question, stack: ExitStack) -> Answer:
        """The engine is started only where it may have something to say: about a job or a node that is named."""

        @cache
        def opened() -> Reader | None:
            if self._lake is None or self._lake.builds.current() is None:
                return None
            return stack.enter_context(self._lake.reading())

        def reader(diagnosis: Diagnosis, story: Story) -> Reader | None:
            return opened() if diagnosis.job_id or diagnosis.node or story.hosts else None

        def witness(diagnosis: Diagnosis, story: Story) -> Samples:
            found = reader(diagnosis, story)
            return samples_from_lake(found, diagnosis, story, window_of(story)) if found is not None else Samples()

        def cost(diagnosis: Diagnosis, story: Story) -> float | None:
            return gpu_hours_lost(diagnosis, story, reader(diagnosis, story))

        return diagnose(
            question.log,
            telemetry=question.telemetry,
            flight_recorder=question.flight_recorder,
            run=question.run,
            time_zone=question.time_zone,
            rulebook=self._rulebook,
            filters=self._filters,
            job_id=question.job_id,
            cluster_id=question.cluster_id,
            witness=witness if self._lake else None,
            cost=cost,
            now=self._clock.now(),
            report=self._report,
        )

    def _judged(self, answer: Answer) -> Diagnosis:
        if not self._config.judge.is_on:
            return answer.diagnosis
        from gpulake.diagnose.judge.judging import judged

        verdict = judged(answer.diagnosis, answer.digests, self._config.judge)
        self._note(verdict.note)
        return verdict.diagnosis

    def _telling(self, answer: Answer) -> tuple[Quote, ...]:
        """What recall and the record know the case by: nobody asks without a lake."""
        if self._lake is None:
            return ()
        return telling([line for digest in answer.digests for line in digest.lines], self._rulebook)

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

        own = learned_filters(self._lake, self._note)
        found = [Filter(rule.name, rule.pattern, rule.source, rule.matches, rule.ignores) for rule in own]
        return Filters((*shipped_filters().filters, *found)) if found else shipped_filters()

    def _subject(self, question: Question) -> str:
        return STANDARD_INPUT if str(question.log) == STANDARD_INPUT else subject_of(question.log)

    def _note(self, text: str) -> None:
        if text and text not in self._notes:
            self._notes.append(text)
