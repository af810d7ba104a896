"""One source, read again and again: what it raises costs only its own rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import groupby

from gpulake.collect.notices import Notices
from gpulake.collect.rows import KIND_OF, Row
from gpulake.collect.sources import Closable, Forgetful, NoData, Resumable, Source
from gpulake.core.clock import Clock

MOST_BACKOFF_SECONDS = 60.0
OK = "ok"


class Guard:
    """Around a source or an observer: what it raises is said once and counted, and it is asked again later."""

    def __init__(self, name: str, notices: Notices, interval_seconds: float) -> None:
        self.name = name
        self.state = OK
        self.is_out = False
        self.failures = 0
        self._notices = notices
        self._interval_seconds = interval_seconds
        self._failures_in_a_row = 0
        self._next_at = 0.0

    def attempt(self, action: Callable[[], None], elapsed: float | None = None) -> None:
        """With a time: not before its turn has come again, each failure twice as long as the one before."""
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


class Reader:
    """A source, and how far it came."""

    def __init__(self, name: str, source: Source, notices: Notices, interval_seconds: float) -> None:
        self.name = name
        self.source = source
        self.guard = Guard(name, notices, interval_seconds)
        self._resumable = source if isinstance(source, Resumable) else None
        self.position: int | None = None  # of a source that can be resumed
        self.guard.attempt(self._ask_position)

    @property
    def values_dropped(self) -> int:
        return int(getattr(self.source, "values_dropped", 0))

    @property
    def worker_cpu_seconds(self) -> float:
        """Of a source that has others work for it."""
        return float(getattr(self.source, "worker_cpu_seconds", 0.0))

    def read(self, clock: Clock, elapsed: float) -> dict[str, list[Row]]:
        """Rows by kind. What it yielded before it failed counts: it would not yield it again."""
        rows: dict[str, list[Row]] = {}
        failures = self.guard.failures
        self.guard.attempt(lambda: self._take(clock, rows), elapsed)
        if self.guard.failures > failures:
            self.forget()  # it may take for told what it had not yielded
        return rows

    @property
    def is_unread(self) -> bool:
        """Whether its silence says nothing, where it would say that nothing changed."""
        return isinstance(self.source, Forgetful) and self.guard.state != OK

    def can_be_stored(self, rows: dict[str, list[Row]]) -> bool:
        """Whether JSON knows everything in the rows; if not, the source has failed."""
        failures = self.guard.failures
        self.guard.attempt(lambda: _check(rows))
        return self.guard.failures == failures

    def resume(self, position: int) -> None:
        if self._resumable is not None:
            self.position = position
            self.guard.attempt(partial(self._resumable.resume, position))

    def forget(self) -> None:
        if isinstance(self.source, Forgetful):
            self.guard.attempt(self.source.forget)

    def close(self) -> None:
        if isinstance(self.source, Closable):
            self.guard.attempt(self.source.close)

    def _take(self, clock: Clock, rows: dict[str, list[Row]]) -> None:
        try:
            for row, run in groupby(self.source.read(clock), type):
                rows.setdefault(KIND_OF[row], []).extend(run)
        finally:
            self._ask_position()

    def _ask_position(self) -> None:
        if self._resumable is not None:
            self.position = self._resumable.position()


def _check(rows: dict[str, list[Row]]) -> None:
    json.dumps(rows)
