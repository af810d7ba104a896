"""A growing log, watched: a failure, a stall or a loss that is no number, told as it happens and once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from typing import Literal

from gpulake.core.clock import Clock
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.core.errors import InputError
from gpulake.core.words import span
from gpulake.diagnose.cause.explaining import explain
from gpulake.diagnose.logs.digest import Digest
from gpulake.diagnose.logs.reading import open_logs
from gpulake.diagnose.logs.scan import Scanner, scan
from gpulake.diagnose.logs.tail import Tail
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule
from gpulake.diagnose.story.stories import read_stories

LOOK_SECONDS = 1.0
SETTLE_SECONDS = 5.0  # other ranks may yet say why
MOST_SETTLE_SECONDS = 60.0  # some go on talking when one has died
LEAST_STALL_SECONDS = 60.0
FIRST_STALL_SECONDS = 1800.0  # before the log has shown how often it makes progress
LEAST_GAPS = 8
STALL_FACTOR = 5.0  # of the longest gaps that were usual
TELLING = (*EXPLAINING, "wrapper", "success")  # roles after which the whole log is looked at

Kind = Literal["failure", "stall", "progress", "nan", "finished", "restarted"]


@dataclass(frozen=True)
class Notice:
    kind: Kind
    noticed_at: datetime
    text: str
    diagnosis: Diagnosis | None = None  # of a failure, or of a job that is done
    quote: Quote | None = None


class Pace:
    """How long the log usually goes without a step, learned from the log itself."""

    def __init__(self, fixed_seconds: float | None = None) -> None:
        self._fixed = fixed_seconds
        self._gaps: deque[float] = deque(maxlen=500)
        self._last: float | None = None

    def step(self, at: float) -> None:
        if self._last is not None:
            self._gaps.append(at - self._last)
        self._last = at

    def begin(self, at: float) -> None:
        """From here on silence counts, though there was no step yet."""
        self._last = at if self._last is None else self._last

    @property
    def stall_seconds(self) -> float:
        if self._fixed is not None:
            return self._fixed
        if len(self._gaps) < LEAST_GAPS:
            return FIRST_STALL_SECONDS
        # The longest of the usual: a checkpoint or an evaluation now and then is no stall.
        usual = quantiles(self._gaps, n=20)[-1]
        return max(LEAST_STALL_SECONDS, STALL_FACTOR * usual, 1.5 * max(self._gaps))

    def silent_seconds(self, at: float) -> float:
        return 0.0 if self._last is None else at - self._last


class Voice:
    """One file of the log: what it said so far, and how many lines of it were heard."""

    def __init__(self, path: Path, name: str, rulebook: Rulebook) -> None:
        self.name = name
        self._tail = Tail(path)
        self._rulebook = rulebook
        self._begin()

    def _begin(self) -> None:
        self._scanner = Scanner(self._rulebook, name=self.name)
        self._lines = 0

    def listen(self) -> tuple[list[tuple[Quote, Rule]], bool, bool]:
        """New lines that mean something; whether there was anything new; whether the file began anew."""
        content, is_new_file = self._tail.read()
        if is_new_file:
            self._begin()
        if not content:
            return [], False, is_new_file
        self._scanner.feed(content)
        heard = scan(self.name, [content], self._rulebook)
        found = [
            (Quote(self._lines + line.number, line.text, self.name), hit.rule)
            for line in heard.lines
            if line.is_hit
            for hit in self._rulebook.hits(line.text)
        ]
        self._lines += heard.lines_read
        return found, True, is_new_file

    def digest(self) -> Digest:
        """Of all that was heard; more may follow."""
        return self._scanner.finish()


class Watch:
    """A log, or a folder of them. Each look reads what is new and says what is new about it."""

    def __init__(
        self,
        path: Path,
        rulebook: Rulebook,
        clock: Clock,
        time_zone: str = "UTC",
        stall_seconds: float | None = None,
    ) -> None:
        self._path = path
        self._rulebook = rulebook
        self._clock = clock
        self._time_zone = time_zone
        self._voices: dict[Path, Voice] = {}
        self._pace = Pace(stall_seconds)
        self._suspected_at: float | None = None
        self._heard_at = 0.0
        self._is_stalled = self._is_nan = False
        self._told: tuple[str, ...] = ()

    def look(self) -> list[Notice]:
        now = self._clock.elapsed()
        self._pace.begin(now)
        notices = []
        for voice in self._heard():
            found, is_louder, is_new_file = voice.listen()
            if is_new_file:
                self._told, self._is_nan = (), False
                notices.append(self._notice("restarted", f"{voice.name or self._path.name} began anew"))
            if is_louder:
                self._heard_at = now
            notices += self._heed(found, now)
        return [*notices, *self._settled(now), *self._stalled(now)]

    def _heard(self) -> list[Voice]:
        """A folder's files may come one by one; a log that is not there yet is waited for."""
        with suppress(InputError):
            logs = open_logs(self._path)
            for file in logs.files:
                if file.path is not None and file.path not in self._voices:
                    name = file.name if logs.is_folder else ""
                    self._voices[file.path] = Voice(file.path, name, self._rulebook)
        return list(self._voices.values())

    def _heed(self, found: list[tuple[Quote, Rule]], now: float) -> Iterator[Notice]:
        steps = [quote for quote, rule in found if rule.role == "progress"]
        if steps:
            self._pace.step(now)
            if self._is_stalled:
                self._is_stalled = False
                yield self._notice("progress", "the job goes on", steps[-1])
        nans = [(quote, rule) for quote, rule in found if _is_nan(rule)]
        if nans and not self._is_nan:
            self._is_nan = True
            quote, rule = nans[0]
            yield self._notice("nan", rule.cause, quote)
        if self._suspected_at is None and any(rule.role in TELLING for _, rule in found):
            self._suspected_at = now

    def _settled(self, now: float) -> Iterator[Notice]:
        """What the whole log says, once nobody adds to it."""
        if self._suspected_at is None:
            return
        is_quiet = now - self._heard_at >= SETTLE_SECONDS
        if not is_quiet and now - self._suspected_at < MOST_SETTLE_SECONDS:
            return
        self._suspected_at = None
        digests = [voice.digest() for voice in self._voices.values()]
        stories = read_stories(digests, self._rulebook, self._time_zone)
        if not stories:
            return
        diagnosis = explain(stories[-1])
        told = (diagnosis.verdict, diagnosis.reason, str(diagnosis.run), *(quote.text for quote in diagnosis.evidence))
        if told == self._told or diagnosis.is_silent:
            return
        self._told = told
        kind: Kind = "failure" if diagnosis.verdict == "failed" else "finished"
        yield self._notice(kind, diagnosis.cause, None, diagnosis)

    def _stalled(self, now: float) -> Iterator[Notice]:
        silent = self._pace.silent_seconds(now)
        # One that failed or finished need not go on.
        if self._is_stalled or self._told or silent < self._pace.stall_seconds:
            return
        self._is_stalled = True
        usual = span(self._pace.stall_seconds)
        yield self._notice("stall", f"no progress for {span(silent)}; this log never took longer than {usual}")

    def _notice(self, kind: Kind, text: str, quote: Quote | None = None, diagnosis: Diagnosis | None = None) -> Notice:
        return Notice(kind, self._clock.now(), text, diagnosis, quote)


def follow(watch: Watch, wait: Callable[[float], None], is_until_end: bool = False) -> Iterator[Notice]:
    """For as long as somebody listens, or until the job ended."""
    while True:
        for notice in watch.look():
            yield notice
            if is_until_end and notice.kind in ("failure", "finished"):
                return
        wait(LOOK_SECONDS)


def _is_nan(rule: Rule) -> bool:
    return rule.reason == "LossNaN" and rule.role in EXPLAINING
