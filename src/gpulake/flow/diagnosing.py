"""Diagnosis with the lake: its telemetry and jobs, past incidents, learned rules, a model if one is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.diagnosis import Diagnosis
from gpulake.core.progress import Report
from gpulake.diagnose.api import Answer, diagnose
from gpulake.diagnose.cost import gpu_hours_lost
from gpulake.diagnose.follow import Notice, Watch, follow
from gpulake.diagnose.judge.judging import is_wanted, judged
from gpulake.diagnose.judge.prompt import prompt_for, shown
from gpulake.diagnose.learn.learning import learned, learned_filters
from gpulake.diagnose.logs.filters import Filter, Filters, shipped_filters
from gpulake.diagnose.past.recall import telling, with_recall
from gpulake.diagnose.past.recording import incident_id, record, subject_of
from gpulake.diagnose.rulebook.book import Rulebook, with_learned
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry import Samples, samples_from_lake, window_of
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
        answer = self._recalled(question)
        verdict = judged(answer.diagnosis, answer.digests, self._config.judge)
        self._note(verdict.note)
        diagnosis = verdict.diagnosis
        if self._lake and question.is_recorded:
            named = record(self._lake, self._clock, diagnosis, answer.digests, self._subject(question))
            diagnosis = replace(diagnosis, incident_id=named)
        return replace(answer, diagnosis=diagnosis, notes=tuple(self._notes))

    def prompt(self, question: Question) -> str:
        """What a model would be sent, to the letter. Nothing is sent and nothing recorded."""
        answer = self._recalled(question)
        if not is_wanted(answer.diagnosis):
            return f"no model would be asked: {answer.diagnosis.reason} is the word of {answer.diagnosis.method}\n"
        return shown(prompt_for(answer.diagnosis, answer.digests, self._config.judge))

    def follow(
        self, path: Path, time_zone: str, stall_seconds: float | None, wait: Callable[[float], None], is_until_end: bool
    ) -> Iterator[Notice]:
        watch = Watch(path, self._rulebook(), self._clock, time_zone, stall_seconds)
        return follow(watch, wait, is_until_end)

    def _recalled(self, question: Question) -> Answer:
        with self._reading() as reader:
            answer = self._answered(question, reader)
        self._notes += answer.notes
        diagnosis = replace(answer.diagnosis, incident_id=incident_id(answer.diagnosis, self._subject(question)))
        if self._lake:
            lines = [line for digest in answer.digests for line in digest.lines]
            rows = self._lake.journal("incident_events")
            recalled = with_recall(diagnosis, rows, telling(lines, self._rulebook()))
            self._note(recalled.note)
            diagnosis = recalled.diagnosis
        return replace(answer, diagnosis=replace(diagnosis, incident_id=""))

    def _answered(self, question: Question, reader: Reader | None) -> Answer:
        def witness(diagnosis: Diagnosis, story: Story) -> Samples:
            assert reader is not None
            return samples_from_lake(reader, diagnosis, story, window_of(story))

        answer = diagnose(
            question.log,
            telemetry=question.telemetry,
            flight_recorder=question.flight_recorder,
            run=question.run,
            time_zone=question.time_zone,
            rulebook=self._rulebook(),
            filters=self._filters(),
            job_id=question.job_id,
            cluster_id=question.cluster_id,
            witness=witness if reader is not None else None,
            now=self._clock.now(),
            report=self._report,
        )
        if reader is None:
            return answer
        hours = gpu_hours_lost(answer.diagnosis, answer.story, reader)
        return replace(answer, diagnosis=replace(answer.diagnosis, gpu_hours_lost=hours))

    @contextmanager
    def _reading(self) -> Iterator[Reader | None]:
        """The engine is started only where it has something to say."""
        if self._lake is None or self._lake.builds.current() is None:
            yield None
            return
        with self._lake.reading() as reader:
            yield reader

    def _rulebook(self) -> Rulebook:
        return with_learned(learned(self._lake, self._note)) if self._lake else with_learned(())

    def _filters(self) -> Filters:
        own = learned_filters(self._lake, self._note) if self._lake else ()
        found = [Filter(rule.name, rule.pattern, rule.source, rule.matches, rule.ignores) for rule in own]
        return Filters((*shipped_filters().filters, *found)) if found else shipped_filters()

    def _subject(self, question: Question) -> str:
        return STANDARD_INPUT if str(question.log) == STANDARD_INPUT else subject_of(question.log)

    def _note(self, text: str) -> None:
        if text and text not in self._notes:
            self._notes.append(text)
