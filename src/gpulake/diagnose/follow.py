"""Follows a growing log: reports a failure, a stall or a NaN loss as it happens, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from gpulake.core.clock import Clock
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.errors import InputError
from gpulake.core.words import span
from gpulake.diagnose.api import Answer
from gpulake.diagnose.cause.explaining import explain
from gpulake.diagnose.logs.digest import Digest
from gpulake.diagnose.logs.filters import Filters
from gpulake.diagnose.logs.reading import open_logs
from gpulake.diagnose.logs.scan import Scanner, scan
from gpulake.diagnose.logs.tail import Tail
from gpulake.diagnose.losses import LossWatch
from gpulake.diagnose.pace import Pace
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import EXPLAINING, Hit, Rule
from gpulake.diagnose.story.stories import read_stories

LOOK_SECONDS = 1.0
FIND_SECONDS = 10.0  # between two searches for new files in a folder
SETTLE_SECONDS = 5.0  # other ranks may still print the cause
MOST_SETTLE_SECONDS = 60.0  # other ranks may print on after one died; and an error may be handled
DECISIVE = (*EXPLAINING, "wrapper", "success")  # roles after which the whole log is diagnosed

Kind = Literal["failure", "stall", "progress", "nan", "spike", "finished", "restarted"]


@dataclass(frozen=True)
class Notice:
    kind: Kind
    noticed_at: datetime
    text: str
    quote: Quote | None = None
    answer: Answer | None = None  # of a failure, or of a job that is done

    @property
    def diagnosis(self) -> Diagnosis | None:
        return self.answer.diagnosis if self.answer is not None else None


class FollowedFile:
    """One file of the log: its digest so far, and the number of lines read."""

    def __init__(self, path: Path, name: str, rulebook: Rulebook, filters: Filters | None) -> None:
        self.name = name
        self.tail = Tail(path)
        self._rulebook = rulebook
        self._filters = filters
        self._begin()

    def _begin(self) -> None:
        self._scanner = Scanner(self._rulebook, self._filters, self.name)
        self.losses = LossWatch(self.name)
        self._lines = 0

    def read_new(self) -> tuple[list[tuple[Quote, Hit]], bool]:
        """New lines that rules match, and whether the file has grown."""
        content = self.tail.read()
        if not content:
            return [], False
        self._scanner.feed(content)
        self.losses.feed(content)
        found = [
            (Quote(self._lines + line.number, line.text, self.name), hit)
            for line in scan(self.name, [content], self._rulebook).lines
            if line.is_hit
            for hit in self._rulebook.hits(line.text)
        ]
        self._lines += content.count(b"\n")
        return found, True

    def reopen(self) -> None:
        """Opens the file that has its name now, and forgets the old one."""
        self.tail.reopen()
        self._begin()

    def digest(self) -> Digest:
        """Of all lines so far; more may follow. Only whole lines were fed, so this changes nothing."""
        return self._scanner.finish()


class LogFollower:
    """Follows a log, or a folder of logs. Each look reads the new lines and returns notices."""

    def __init__(
        self,
        path: Path,
        rulebook: Rulebook,
        clock: Clock,
        time_zone: str = "UTC",
        stall_seconds: float | None = None,
        filters: Filters | None = None,
    ) -> None:
        self._path = path
        self._rulebook = rulebook
        self._filters = filters
        self._clock = clock
        self._time_zone = time_zone
        self._files: dict[Path, FollowedFile] = {}
        self._found_at: float | None = None
        self._pace = Pace(stall_seconds)
        self._suspected_at: float | None = None
        self._written_at = 0.0
        self._considered_at: float | None = None
        self._is_stalled = self._is_nan = self._is_over = self._is_spiked = False
        self._reported: tuple[str, ...] = ()

    def look(self) -> list[Notice]:
        now = self._clock.elapsed()
        self._pace.begin(now)
        notices: list[Notice] = []
        for file in self._open_files(now):
            found, has_grown = file.read_new()
            if has_grown:
                self._written_at = now
                notices += self._react(found, now)
                notices += self._spiked(file)
            elif file.tail.is_replaced:
                notices += self._replaced(file, now)
        return [*notices, *self._settled(now), *self._stalled(now)]

    def close(self) -> None:
        for file in self._files.values():
            file.tail.close()

    @property
    def is_behind(self) -> bool:
        return any(file.tail.is_behind for file in self._files.values())

    def _open_files(self, now: float) -> list[FollowedFile]:
        """Files of a folder may appear one by one; a missing log is waited for."""
        if self._found_at is None or now - self._found_at >= FIND_SECONDS or not self._files:
            self._found_at = now
            with suppress(InputError):
                logs = open_logs(self._path)
                for file in logs.files:
                    if file.path is not None and file.path not in self._files:
                        name = file.name if logs.is_folder else ""
                        self._files[file.path] = FollowedFile(file.path, name, self._rulebook, self._filters)
        return list(self._files.values())

    def _replaced(self, file: FollowedFile, now: float) -> Iterator[Notice]:
        """The end of the old file is reported before it is forgotten."""
        if self._suspected_at is not None and (answer := self._answered()) is not None:
            yield from self._report(answer)
        file.reopen()
        yield self._notice("restarted", f"{file.name or self._path.name} began anew")
        self._reset(now)

    def _reset(self, now: float) -> None:
        self._reported, self._suspected_at = (), None
        self._is_nan = self._is_stalled = self._is_over = self._is_spiked = False
        self._pace.reset(now)

    def _react(self, found: list[tuple[Quote, Hit]], now: float) -> Iterator[Notice]:
        steps = [(quote, hit) for quote, hit in found if hit.rule.role == "progress"]
        if steps:
            yield from self._continued(steps, now)
        nans = [(quote, hit.rule) for quote, hit in found if _is_nan(hit.rule)]
        if nans and not self._is_nan:
            self._is_nan = True
            quote, rule = nans[0]
            yield self._notice("nan", rule.cause, quote)
        if self._suspected_at is None and any(hit.rule.role in DECISIVE for _, hit in found):
            self._suspected_at = now

    def _spiked(self, file: FollowedFile) -> Iterator[Notice]:
        """A loss that jumped up and stays there, once; ranks print the same losses."""
        spike = file.losses.spike
        if spike is not None and not self._is_spiked:
            yield self._notice("spike", str(spike), spike.first.quote)
        if spike is not None or file is next(iter(self._files.values())):
            self._is_spiked = spike is not None

    def _continued(self, steps: Sequence[tuple[Quote, Hit]], now: float) -> Iterator[Notice]:
        last, _ = steps[-1]
        if self._is_over:
            yield self._notice("restarted", "the job works again, in the same log", last)
            reported, suspected = self._reported, self._suspected_at
            self._reset(now)
            self._reported, self._suspected_at = reported, suspected  # the end before is not reported again
        elif self._is_stalled:
            self._is_stalled = False
            yield self._notice("progress", "the job goes on", last)
            self._pace.reset(now)
        self._pace.step(now)
        self._pace.learn(steps)

    def _settled(self, now: float) -> Iterator[Notice]:
        """The diagnosis of the whole log, once it no longer grows."""
        if self._suspected_at is None:
            return
        is_quiet = now - self._written_at >= SETTLE_SECONDS
        # A job that still makes steps, however long, has handled the error.
        patience = max(MOST_SETTLE_SECONDS, 3 * (self._pace.longest or 0.0))
        is_due = min(now - self._suspected_at, self._pace.silent_seconds(now)) >= patience
        if not is_quiet and not is_due:
            return
        if not is_due and self._considered_at == self._written_at:
            return
        self._considered_at = self._written_at
        answer = self._answered()
        if answer is None or (not is_due and not _is_end(answer)):
            return
        self._suspected_at = None
        yield from self._report(answer)

    def _answered(self) -> Answer | None:
        digests = tuple(file.digest() for file in self._files.values())
        stories = read_stories(digests, self._rulebook, self._time_zone)
        return Answer(explain(stories[-1]), stories[-1], digests) if stories else None

    def _report(self, answer: Answer) -> Iterator[Notice]:
        diagnosis = answer.diagnosis
        identity = (
            diagnosis.verdict,
            diagnosis.reason,
            str(diagnosis.run),
            *(quote.text for quote in diagnosis.evidence),
        )
        if identity == self._reported or diagnosis.is_silent:
            return
        self._reported, self._is_over = identity, True
        kind: Kind = "failure" if diagnosis.verdict == "failed" else "finished"
        yield self._notice(kind, diagnosis.cause, answer=answer)

    def _stalled(self, now: float) -> Iterator[Notice]:
        silent = self._pace.silent_seconds(now)
        # A failed or finished job does not stall.
        if self._is_stalled or self._is_over or silent < self._pace.stall_seconds:
            return
        self._is_stalled = True
        longest = self._pace.longest
        usual = f"; no step took longer than {span(longest)} before" if longest is not None else ""
        yield self._notice("stall", f"no progress for {span(silent)}{usual}")

    def _notice(self, kind: Kind, text: str, quote: Quote | None = None, answer: Answer | None = None) -> Notice:
        return Notice(kind, self._clock.now(), text, quote, answer)


def follow(follower: LogFollower, wait: Callable[[float], None], is_until_end: bool = False) -> Iterator[Notice]:
    """Until the caller stops, or until the job ended."""
    with closing(follower):
        while True:
            for notice in follower.look():
                yield notice
                if is_until_end and notice.kind in ("failure", "finished"):
                    return
            if not follower.is_behind:
                wait(LOOK_SECONDS)


def _is_nan(rule: Rule) -> bool:
    return rule.reason == "LossNaN" and rule.role in EXPLAINING


def _is_end(answer: Answer) -> bool:
    """Whether the log shows an end: a dead process, its launcher, or a success."""
    is_healthy = answer.diagnosis.verdict == "healthy" and not answer.diagnosis.is_silent
    return is_healthy or any(
        event.hit.rule.role == "wrapper" or event.is_uncaught or event.script for event in answer.story.events
    )
