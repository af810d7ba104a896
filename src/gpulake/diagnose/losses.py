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
    rb"(?i)(?:\b|\b(?:train|total|lm)_)loss(?:_step|_epoch)?\b['\"]?\s?(?:\([^)\n]{1,30}\))?\s?[:=|]?\s{0,99}['\"]?(\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)\b",
    _OPTIONS,
)
_NAN = re2.compile(rb"(?i)(?:\b|_)loss(?:_step|_epoch)?\b[^\n]{0,40}\b(?:nan|inf)\b", _OPTIONS)
_STEP = re.compile(r"(?i)\b(?:iteration|iter|global_step|step|update|batch)s?\W{1,12}(\d{1,9})")
_CANCELLED = {"JobCancelled", "UserInterrupt", "PreemptionSIGTERM"}
# What a program dies of that goes on with NaN: checks of values and of indexes, on the host and in kernels.
_OF_NAN = {"AssertionError", "CUDAError", "IndexError", "RuntimeError", "ValueError"}
LEAST_NANS = 2  # losses in a row: scalers of mixed precision skip single steps


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
        self.nans = 0  # since then

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
            value = float(found[1])
            if self._is_usual(value):
                continue
            line = text[begin : end if end >= 0 else len(text)][:LONGEST_LINE].decode(errors="replace")
            step = _STEP.search(line)
            loss = Loss(value, int(step[1]) if step else None, Quote(counted + 1, line, self._file))
            if isfinite(value):
                # The first says where it began, the last few how high it is.
                self._high.append(loss)
            else:
                self.first_nan = self.first_nan or loss
                self.nans += 1
        self.pass_over(text)

    def _is_usual(self, value: float) -> bool:
        if not isfinite(value):
            return False
        if self._high:
            if value > CALM * self._level:
                return False
            self._high = []
        elif len(self._before) >= LEAST_BEFORE and value > SPIKE * max(self._level, 0.0) > 0:
            return False
        else:
            self.first_nan, self.nans = None, 0  # training recovered
            self._before.append(value)
            if len(self._before) % 10 == 0 or not self._level:
                self._level = median(self._before)
        return True


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


def _has_nan(logs: Logs) -> bool:
    """A quick look, for the many logs without; a larger file is not read twice for it."""
    path = logs.files[0].path if logs.files else None
    if path is None or path.stat().st_size > MOST_BYTES:
        return False
    return any(_NAN.search(chunk) for chunk in replace(logs.files[0]).chunks())


def _whole_lines(chunks: Iterable[bytes]) -> Iterable[bytes]:
    rest = b""
    for chunk in chunks:
        whole, separator, end = (rest + chunk.replace(b"\r\n", b"\n")).rpartition(b"\n")
        rest = end
        yield whole + separator
    yield rest


def with_losses(diagnosis: Diagnosis, logs: Logs) -> Diagnosis:
    """Names a spike where the log ends without a cause, or by a person; and the step at which a loss became NaN."""
    is_nan, is_open = diagnosis.reason == "LossNaN", diagnosis.is_silent or diagnosis.reason in _CANCELLED
    may_be_nan = diagnosis.reason in _OF_NAN and _has_nan(logs)
    if not (is_nan or is_open or may_be_nan) or (found := watch(logs)) is None:
        return diagnosis
    if not is_nan and found.first_nan is not None and found.nans >= LEAST_NANS:
        return _diverged(diagnosis, found.first_nan)
    if not (is_nan or is_open):
        return diagnosis
    if is_nan and found.first_nan is not None:
        evidence = dict.fromkeys((found.first_nan.quote, *diagnosis.evidence))
        return replace(diagnosis, cause=f"{diagnosis.cause} at {found.first_nan}", evidence=tuple(evidence)[:5])
    return spiked(diagnosis, found.spike) if found.spike is not None and not is_nan else diagnosis


def _diverged(diagnosis: Diagnosis, first: Loss) -> Diagnosis:
    return replace(
        diagnosis,
        verdict="failed",
        reason="LossNaN",
        category=CATEGORY_OF["LossNaN"],
        cause=f"The loss became NaN or infinite at {first}, and stayed so",
        remedy="Go back to a checkpoint before it, lower the learning rate or clip gradients, and look at its data.",
        evidence=(first.quote, *diagnosis.evidence[:4]),
        recovery=Recovery("needs_config_change", "The same settings on the same data diverge again."),
        confidence=0.7,
        rule="",
    )


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
