"""What follows from what: of several that may be the root cause, the one that the others follow from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulake.diagnose.cause.suspects import is_bare, is_muttered
from gpulake.diagnose.story.events import Event
from gpulake.diagnose.story.lines import QUIET

_LOST_PEERS = {"ConnectionError", "NetworkError", "NCCLTimeoutError", "NCCLRemoteError", "HangStraggler"}
_SIGNALS = {"JobCancelled", "PreemptionSIGTERM", "UserInterrupt", "SlurmTimeLimit"}
_KILLS = {"ProcessKilled", "HostOOMKilled", "ProcessCrashed", "DataloaderKilled"}
_TIMED_OUT = {"NCCLTimeoutError", "HangStraggler"}
_BROKEN = {"CUDAError", "NCCLConfigError", "RuntimeError", *_LOST_PEERS, *_KILLS}
# What a reason brings about, even where the log tells it later: the kernel's log, for one, often stands at the end.
BRINGS_ABOUT: dict[str, set[str]] = {
    "XidError": _BROKEN,
    "ECCError": {*_BROKEN, "XidError"},
    "NVLinkError": {*_BROKEN, "XidError"},
    "NodeFailure": {*_BROKEN, *_SIGNALS},
    "HostOOMKilled": {"ProcessKilled", "ProcessCrashed", "DataloaderKilled", "HostOOMKilled", *_LOST_PEERS},
    "SharedMemoryFull": {"DataloaderKilled", "RuntimeError", "OSError", "ProcessCrashed"},
    "DriverMismatch": {"CUDAError", "RuntimeError"},
    "DiskFull": {"OSError", "RuntimeError", "ModelLoadingError"},
    "SlurmTimeLimit": {"JobCancelled", "PreemptionSIGTERM", "UserInterrupt"},
    "PreemptionSIGTERM": {"JobCancelled", "UserInterrupt"},
    "PortInUse": {"ConnectionError", "RuntimeError"},
}
# Said without a traceback, they may be no more than a wish of the program that it can do without.
_ENVIRONMENT = {
    "ImportError",
    "DriverMismatch",
    "CUDAError",
    "FileNotFoundError",
    "PermissionError",
    "OSError",
    "ConnectionError",
    "NetworkError",
    "PortInUse",
    "ArgumentError",
    "NCCLConfigError",
    "ModelLoadingError",
    "DatasetLoadingError",
    "S3StorageError",
    "CalledProcessError",
}
_OF_FILES = {"FileNotFoundError", "PermissionError", "OSError", "ModelLoadingError", "DatasetLoadingError"}
_LIKELY = {
    *((one, other) for one in _OF_FILES for other in _OF_FILES),
    *(("CUDAError", other) for other in ("RuntimeError", "NCCLConfigError", *_LOST_PEERS)),
    *(
        (one, other)
        for one in ("ConnectionError", "NetworkError")
        for other in (*_LOST_PEERS, "RuntimeError", "OSError")
    ),
    *((one, "ModelLoadingError") for one in ("ConnectionError", "NetworkError", "S3StorageError")),
    ("PortInUse", "OSError"),
    ("NCCLConfigError", "RuntimeError"),
    ("ImportError", "CalledProcessError"),
    ("CalledProcessError", "ImportError"),
    ("CalledProcessError", "RuntimeError"),
}
_ASSERTED = re.compile(r"Assertion .* failed|device-side assert|probability tensor")
_EXCEPTION = re.compile(r"(?:.{0,60}[\d\]):,] )?\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
_WITHOUT_GPU = {"CUDAError", "RuntimeError", "ValueError", "AssertionError"}
_OF_GPU = re.compile(r"(?i)\b(?:gpus?|cuda|nccl|device)\b")
_UNSAID = re.compile(r"(?:Error|Exception):?\s*$")
_PATH = re.compile(r"[\w./~-]*/[\w.-]+\b")
_KEEPS_FILES_AWAY = {"PermissionError", "ConnectionError", "NetworkError", "S3StorageError", "DiskFull"}
_NAN = re.compile(r"(?i)\bnan\b|\binf|finite|diverg|\bloss\b")
# Only of what is told plainly: a rule below this strength guesses.
TOLD_PLAINLY = 70
# What a NaN brings about, if anything: a check that fails, or somebody who has seen enough.
_AFTER_NAN = {"AssertionError", "ValueError", "RuntimeError", "LossNaN", "ProcessCrashed", *_SIGNALS, *_LOST_PEERS}
CASCADE_STRENGTH = 60
SWALLOWED = 40  # an error that was passed over must be well known to explain what came later
NAMELESS, WELL_KNOWN = 20, 40
MESSAGE_BELOW = 25  # lines below a class within which its message may stand
PLAIN = 25  # an exception of which at least the class is known
# Rules of what goes wrong because something had been swallowed before.
CONSEQUENCE = "consequence_"


def root_of(suspects: Sequence[Event]) -> Event | None:
    """The root cause among suspects that are in order and were not handled."""
    loud = [event for event in suspects if event.hit.rule.role == "cause" and not is_muttered(event)]
    muttered = [event for event in suspects if event.hit.rule.role == "cause" and is_muttered(event)]
    cascades = [event for event in suspects if event.hit.rule.role == "cascade"]
    if not loud:
        return _without_loud(muttered, cascades)
    first = _with_message(_first(_without_passed_over(loud)), loud)
    root = _missed_since(_not_a_consequence(first, loud, muttered), [*loud, *muttered])
    root = _without_gpu(_behind_timeout(root, cascades), muttered)
    plain = [event for event in muttered if event.hit.rule.strength >= TOLD_PLAINLY]
    return _sharpest(_brought_about_by(root, [*loud, *plain]), loud)


def _without_passed_over(loud: Sequence[Event]) -> Sequence[Event]:
    """Complaints of the environment that the program went on after, until it died of something else."""
    deaths = [event for event in loud if event.is_uncaught and event.hit.rule.strength >= PLAIN]
    deaths = [event for event in deaths if not event.hit.rule.name.startswith(CONSEQUENCE)]

    def is_passed_over(event: Event) -> bool:
        if not is_bare(event) or event.hit.rule.reason not in _ENVIRONMENT:
            return False
        last = deaths[0] if deaths and deaths[0].order > event.order else None
        return last is not None and not _may_bring_about(event.hit.rule.reason, last.hit.rule.reason)

    return [event for event in loud if not is_passed_over(event)]


def _may_bring_about(reason: str, other: str) -> bool:
    return reason == other or other in BRINGS_ABOUT.get(reason, ()) or (reason, other) in _LIKELY


def _sharpest(root: Event, loud: Sequence[Event]) -> Event:
    """Of several that tell of the same reason, the one whose rule knows most: it names the library or the limit."""
    same = [event for event in loud if event.hit.rule.reason == root.hit.rule.reason]
    return max(same, key=lambda event: event.hit.rule.strength, default=root) if root in same else root


def _first(loud: Sequence[Event]) -> Event:
    """The first, but for a NaN that has nothing to do with what came later, and for a class that nobody knows."""
    root = loud[0]
    if root.hit.rule.reason == "LossNaN":
        others = [event for event in loud if not _may_follow_nan(event)]
        return others[0] if others else root
    if root.hit.rule.strength < NAMELESS:
        known = [event for event in loud if event.hit.rule.strength >= WELL_KNOWN]
        return known[0] if known else root
    return root


def _may_follow_nan(event: Event) -> bool:
    """An exception must say so: a loss of NaN does not explain every other one."""
    if event.hit.rule.reason == "CUDAError":
        return bool(_ASSERTED.search(event.quote.text))  # an index that was drawn from NaN
    if event.hit.rule.category == "framework" and event.hit.rule.reason != "LossNaN":
        return event.hit.rule.reason in _AFTER_NAN and bool(_NAN.search(event.quote.text))
    return event.hit.rule.reason in _AFTER_NAN


def _not_a_consequence(root: Event, loud: Sequence[Event], muttered: Sequence[Event]) -> Event:
    """An error that was swallowed, where what ended the run follows from it."""
    if not root.hit.rule.name.startswith(CONSEQUENCE):
        return root
    before = [event for event in muttered if event.order < root.order and event.hit.rule.strength >= SWALLOWED]
    if before:
        return before[-1]
    later = [event for event in loud if not event.hit.rule.name.startswith(CONSEQUENCE)]
    return later[0] if later else root


def _with_message(root: Event, loud: Sequence[Event]) -> Event:
    """A class whose message stands some lines below it: what is known of the message counts."""
    if not _UNSAID.search(root.quote.text):
        return root
    below = [event for event in loud if 0 < event.order - root.order <= MESSAGE_BELOW and event.chain is None]
    return next((event for event in below if event.hit.rule.strength >= CASCADE_STRENGTH), root)


def _missed_since(root: Event, others: Sequence[Event]) -> Event:
    """A file that is not there because it could not be fetched or written before, which was passed over."""
    if root.hit.rule.reason not in _OF_FILES:
        return root
    named = set(_PATH.findall(root.quote.text))
    before = [event for event in others if event.order < root.order and event.hit.rule.reason in _KEEPS_FILES_AWAY]
    return next((event for event in before if named.intersection(_PATH.findall(event.quote.text))), root)


def _without_gpu(root: Event, muttered: Sequence[Event]) -> Event:
    """A driver that does not fit is told as a warning; then there is no GPU, and that is what ends the program."""
    if root.hit.rule.reason not in _WITHOUT_GPU or not _OF_GPU.search(root.quote.text):
        return root
    before = [event for event in muttered if event.order < root.order]
    return next((event for event in before if event.hit.rule.reason == "DriverMismatch"), root)


def _behind_timeout(root: Event, cascades: Sequence[Event]) -> Event:
    """A collective that waited for its full time stood still before: a weak error after it is its consequence."""
    before = [event for event in cascades if event.order < root.order and event.hit.rule.reason in _TIMED_OUT]
    if (
        before
        and root.hit.rule.strength < CASCADE_STRENGTH
        and root.hit.rule.reason in ("RuntimeError", "ProcessCrashed")
    ):
        return before[0]
    return root


def _without_loud(muttered: Sequence[Event], cascades: Sequence[Event]) -> Event | None:
    if not cascades:
        return max(muttered, key=lambda event: event.hit.rule.strength, default=None)
    before = [event for event in muttered if event.order < cascades[0].order and _names_an_error(event)]
    if before:
        return before[0]
    strongest = max(event.hit.rule.strength for event in cascades)
    return next(event for event in cascades if event.hit.rule.strength >= strongest - 12)


def _names_an_error(event: Event) -> bool:
    """Well known, or told in a line of its own as an exception is."""
    least = PLAIN if _EXCEPTION.match(event.quote.text) and event.severity not in QUIET else WELL_KNOWN
    return event.hit.rule.strength >= least


def _brought_about_by(root: Event, others: Sequence[Event]) -> Event:
    for event in others:
        rule = event.hit.rule
        if rule.strength < TOLD_PLAINLY or rule.strength <= root.hit.rule.strength:
            continue
        if root.hit.rule.reason in BRINGS_ABOUT.get(rule.reason, ()):
            return event
    return root
