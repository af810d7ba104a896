"""Repeated reads of one source: an exception costs only the rows of that source."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import groupby

from gpulake.collect.rows import KIND_OF, Row
from gpulake.collect.sources import Closable, Incremental, NoData, Resumable, Source
from gpulake.core.clock import Clock

MOST_BACKOFF_SECONDS = 60.0
OK = "ok"
MOST_A_SUBJECT = 20  # messages with a changing number must not fill the log


class Notices:
    """Messages of the collector about itself: each once, in its log and as an event of the run. For any thread."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._seen: dict[str, set[str]] = {}
        self._new: list[tuple[str, str]] = []

    def say(self, subject: str, message: str, *, is_event: bool = True) -> None:
        seen = self._seen.setdefault(subject, set())
        if message in seen or len(seen) >= MOST_A_SUBJECT:
            return
        seen.add(message)
        self._echo(f"{subject}: {one_line(message)}")
        if is_event:
            self._new.append((subject, message))

    def take(self) -> list[tuple[str, str]]:
        """The events since the last call: subject, message."""
        new, self._new = self._new, []
        return new


def one_line(text: str) -> str:
    """Escapes control characters: a message from a file or a driver must not break lines or control a terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class Guard:
    """Around a source or an observer: an exception is reported once and counted, and the call is retried later."""

    def __init__(self, name: str, notices: Notices, interval_seconds: float) -> None:
        self.name = name
        self.state = OK
        self.is_out = False
        self.failures = 0
        self._notices = notices
        self._interval_seconds = interval_seconds
        self._failures_in_a_row = 0
        self._next_at = 0.0

    def attempt(self, action: Callable[[], object], elapsed: float | None = None) -> None:
        """With a time: backs off after failures, twice as long each time."""
        if self.is_out or (elapsed is not None and elapsed < self._next_at):
            return
        try:
            action()
        except NoData as absence:
            self.is_out = True
            self.state = f"no data: {absence}"
            self._notices.say(self.name, self.state)
        except Exception as error:  # noqa: BLE001 - a source may fail in any way; the others must go on
            self._failed(f"{type(error).__name__}: {error}", elapsed)
        else:
            if elapsed is not None:
                self.state = OK
                self._failures_in_a_row = 0

    def _failed(self, reason: str, elapsed: float | None) -> None:
        self.failures += 1
        self.state = f"failing: {reason}"
        self._notices.say(self.name, self.state)
        if elapsed is not None:
            pause = min(self._interval_seconds * 2**self._failures_in_a_row, MOST_BACKOFF_SECONDS)
            self._next_at = elapsed + pause - self._interval_seconds / 2  # ticks are never quite on time
            self._failures_in_a_row = min(self._failures_in_a_row + 1, 16)


class SourceReader:
    """A source and its position."""

    def __init__(self, name: str, source: Source, notices: Notices, interval_seconds: float) -> None:
        self.name = name
        self.source = source
        self.guard = Guard(name, notices, interval_seconds)
        self._resumable = source if isinstance(source, Resumable) else None
        self.position: int | None = None  # of a resumable source
        self.guard.attempt(self._update_position)

    @property
    def values_dropped(self) -> int:
        return int(getattr(self.source, "values_dropped", 0))

    @property
    def worker_cpu_seconds(self) -> float:
        """Cost of the worker processes of the source."""
        return float(getattr(self.source, "worker_cpu_seconds", 0.0))

    def read(self, clock: Clock, elapsed: float) -> dict[str, list[Row]]:
        """Rows by kind, including those yielded before a failure: they would not be yielded again."""
        rows: dict[str, list[Row]] = {}
        failures = self.guard.failures
        self.guard.attempt(lambda: self._take(clock, rows), elapsed)
        if self.guard.failures > failures:
            self.forget()  # it may have marked rows as sent that it did not yield
        return rows

    @property
    def is_unread(self) -> bool:
        """Whether no rows do not mean that nothing changed."""
        return isinstance(self.source, Incremental) and self.guard.state != OK

    def can_be_stored(self, rows: dict[str, list[Row]]) -> bool:
        """Whether the rows can be encoded as JSON; if not, the source has failed."""
        failures = self.guard.failures
        self.guard.attempt(lambda: json.dumps(rows))
        return self.guard.failures == failures

    def resume(self, position: int) -> None:
        if self._resumable is not None:
            self.position = position
            self.guard.attempt(partial(self._resumable.resume, position))

    def forget(self) -> None:
        if isinstance(self.source, Incremental):
            self.guard.attempt(self.source.forget)

    def close(self) -> None:
        if isinstance(self.source, Closable):
            self.guard.attempt(self.source.close)

    def _take(self, clock: Clock, rows: dict[str, list[Row]]) -> None:
        try:
            for row, run in groupby(self.source.read(clock), type):
                rows.setdefault(KIND_OF[row], []).extend(run)
        finally:
            self._update_position()

    def _update_position(self) -> None:
        if self._resumable is not None:
            self.position = self._resumable.position()
