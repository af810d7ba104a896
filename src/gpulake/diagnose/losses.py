"""The losses that a log prints: where they turn NaN, and where they jump up and stay there."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median

import re2

from gpulake.core.diagnosis import CATEGORY_OF, Diagnosis, Quote, Recovery
from gpulake.diagnose.logs.reading import Logs

BEFORE, LEAST_BEFORE = 100, 20  # losses that a spike is compared with
LASTS = 20  # losses in a row that are high: a single bad batch is none
SPIKE = 2.0  # times the median before
CALM = 1.25  # times the median before: the spike is over
LONGEST_LINE = 2_000
MOST_BYTES = 16 << 20  # at the end of a log: a line with a loss costs twenty times a line without
# By RE2, which is several times faster than Python on lines without a loss.
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_LOSS = re2.compile(
    rb"(?i)\bloss\b['\"]?\s?(?:\([^)\n]{1,30}\))?\s?[:=|]?\s{0,12}(\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)\b", _OPTIONS
)
_STEP = re.compile(r"(?i)\b(?:iteration|iter|global_step|step|update|batch)s?\W{1,12}(\d{1,9})")
_CANCELLED = {"JobCancelled", "UserInterrupt", "PreemptionSIGTERM"}


@dataclass(frozen=True)
class Loss:
    value: float
    step: int | None
    quote: Quote

    def __str__(self) -> str:
        return f"step {self.step:,}" if self.step is not None else f"line {self.quote.line:,}"


@dataclass(frozen=True)
class Spike:
    first: Loss
    last: Loss
    before: float  # the median of the losses before it

    def __str__(self) -> str:
        height = f"from about {self.before:.3g} to {self.last.value:.3g}"
        return f"The loss jumped {height} at {self.first} and stayed there until {self.last}"


class LossWatch:
    """Reads text in pieces of whole lines."""

    def __init__(self, file: str = "") -> None:
        self._file = file
        self._lines = 0
        self._before: deque[float] = deque(maxlen=BEFORE)
        self._high: list[Loss] = []
        self._level = 0.0
        self.first_nan: Loss | None = None

    @property
    def spike(self) -> Spike | None:
        """One that has lasted and is not over."""
        return Spike(self._high[0], self._high[-1], self._level) if len(self._high) >= LASTS else None

    def pass_over(self, text: bytes) -> None:
        self._lines += text.count(b"\n")

    def feed(self, text: bytes) -> None:
        counted, at, last = self._lines, 0, -1
        for found in _LOSS.finditer(text):
            counted += text.count(b"\n", at, found.start())
            at = found.start()
            begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            if begin == last:
                continue  # of several losses of a line the first counts
            last = begin
            line = text[begin : end if end >= 0 else len(text)][:LONGEST_LINE].decode(errors="replace")
            step = _STEP.search(line)
            quote = Quote(counted + 1, line, self._file)
            self._add(Loss(float(found[1]), int(step[1]) if step else None, quote))
        self.pass_over(text)

    def _add(self, loss: Loss) -> None:
        if not isfinite(loss.value):
            self.first_nan = self.first_nan or loss
            return
        if not self._high:
            if len(self._before) >= LEAST_BEFORE and loss.value > SPIKE * max(self._level, 0.0) > 0:
                self._high = [loss]
            else:
                self.first_nan = None  # training recovered
                self._before.append(loss.value)
                if len(self._before) % 10 == 0 or not self._level:
                    self._level = median(self._before)
        elif loss.value > CALM * self._level:
            # The first says where it began, the last few how high it is.
            self._high.append(loss)
        else:
            self._high = []


def watch(logs: Logs) -> LossWatch | None:
    """Of the end of a file that can be read again; ranks of a folder print the same losses."""
    if not logs.files or logs.files[0].path is None:
        return None
    file = logs.files[0]
    found = LossWatch(file.name if logs.is_folder else "")
    last: deque[bytes] = deque()
    held = 0
    for text in _whole_lines(replace(file).chunks()):
        last.append(text)
        held += len(text)
        while held > MOST_BYTES and len(last) > 1:
            held -= len(last[0])
            found.pass_over(last.popleft())
    for text in last:
        found.feed(text)
    return found


def _whole_lines(chunks: Iterable[bytes]) -> Iterable[bytes]:
    rest = b""
    for chunk in chunks:
        whole, separator, end = (rest + chunk.replace(b"\r\n", b"\n")).rpartition(b"\n")
        rest = end
        yield whole + separator
    yield rest


def with_losses(diagnosis: Diagnosis, logs: Logs) -> Diagnosis:
    """Names a spike where the log ends without a cause, or by a person; and the step at which a loss became NaN."""
    is_nan = diagnosis.reason == "LossNaN"
    if not (is_nan or diagnosis.is_silent or diagnosis.reason in _CANCELLED) or (found := watch(logs)) is None:
        return diagnosis
    if is_nan and found.first_nan is not None:
        evidence = dict.fromkeys((found.first_nan.quote, *diagnosis.evidence))
        return replace(diagnosis, cause=f"{diagnosis.cause} at {found.first_nan}", evidence=tuple(evidence)[:5])
    return spiked(diagnosis, found.spike) if found.spike is not None and not is_nan else diagnosis


def spiked(diagnosis: Diagnosis, spike: Spike) -> Diagnosis:
    steps = f"the data of {spike.first} to {spike.last}"
    return replace(
        diagnosis,
        verdict="failed",
        reason="LossSpike",
        category=CATEGORY_OF["LossSpike"],
        cause=str(spike),
        remedy=f"Go back to a checkpoint before {spike.first} and skip {steps}; lower the learning rate if it recurs.",
        evidence=(spike.first.quote, spike.last.quote, *diagnosis.evidence[:2]),
        recovery=Recovery("needs_config_change", f"From the same weights, {steps} lead there again."),
        confidence=0.7,
        rule="",
    )
