"""The root cause among several suspects: the one that the others follow from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpulake.core.packaged import packaged_toml
from gpulake.diagnose.cause.suspects import is_bare, is_incidental
from gpulake.diagnose.story.events import Event
from gpulake.diagnose.story.lines import QUIET

_TABLE = packaged_toml("gpulake.diagnose.cause", "consequences.toml")


def _reasons(names: Iterable[str]) -> frozenset[str]:
    """The name of a group of reasons stands for its members."""
    groups = _TABLE["groups"]
    return frozenset(reason for name in names for reason in (_reasons(groups[name]) if name in groups else (name,)))


CAUSES = {reason: _reasons(others) for reason, others in _TABLE["causes"].items()}
_LIKELY = {
    (one, other) for entry in _TABLE["likely"] for one in _reasons(entry["of"]) for other in _reasons(entry["may"])
}
_ENVIRONMENT, _OF_FILES, _TIMED_OUT = (_reasons([name]) for name in ("environment", "files", "timed_out"))
_ASSERTED = re.compile(r"Assertion .* failed|device-side assert|probability tensor")
_EXCEPTION = re.compile(r"(?:.{0,60}[\d\]):,] )?\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
_WITHOUT_GPU = {"CUDAError", "RuntimeError", "ValueError", "AssertionError"}
_OF_GPU = re.compile(r"(?i)\b(?:gpus?|cuda|nccl|device)\b")
_NO_MESSAGE = re.compile(r"(?:Error|Exception):?\s*$")
_PATH = re.compile(r"[\w./~-]*/[\w.-]+\b")
_KEEPS_FILES_AWAY = {"PermissionError", "ConnectionError", "NetworkError", "S3StorageError", "DiskFull"}
_NAN = re.compile(r"(?i)\bnan\b|\binf|finite|diverg|\bloss\b")
# A rule below this strength is a guess.
EXPLICIT = 70
# What a NaN may cause: a failed check, or a person who cancels the job.
_AFTER_NAN = {
    "AssertionError",
    "ValueError",
    "RuntimeError",
    "LossNaN",
    "ProcessCrashed",
    *_reasons(["signals", "lost_peers"]),
}
CASCADE_STRENGTH = 60
SWALLOWED = 40  # the least strength of a swallowed error that explains a later one
NAMELESS, WELL_KNOWN = 20, 40
MESSAGE_BELOW = 25  # lines after a class within which its message may come
PLAIN = 25  # an exception whose class is known
# Rules of errors that follow from a swallowed one.
CONSEQUENCE = "consequence_"


def root_of(suspects: Sequence[Event]) -> Event | None:
    """The root cause among suspects in order that were not handled."""
    explicit = [event for event in suspects if event.hit.rule.role == "cause" and not is_incidental(event)]
    incidental = [event for event in suspects if event.hit.rule.role == "cause" and is_incidental(event)]
    cascades = [event for event in suspects if event.hit.rule.role == "cascade"]
    if not explicit:
        return _without_explicit(incidental, cascades)
    first = _with_message(_first(_without_survived(explicit)), explicit)
    root = _missing_since(_not_a_consequence(first, explicit, incidental), [*explicit, *incidental])
    root = _without_gpu(_behind_timeout(root, cascades), incidental)
    plain = [event for event in incidental if event.hit.rule.strength >= EXPLICIT]
    return _most_specific(_caused_by(root, [*explicit, *plain]), explicit)


def _without_survived(explicit: Sequence[Event]) -> Sequence[Event]:
    """Without errors of the environment after which the program continued, until it died of something else."""
    deaths = [event for event in explicit if event.is_uncaught and event.hit.rule.strength >= PLAIN]
    deaths = [event for event in deaths if not event.hit.rule.name.startswith(CONSEQUENCE)]

    def is_survived(event: Event) -> bool:
        if not is_bare(event) or event.hit.rule.reason not in _ENVIRONMENT:
            return False
        last = deaths[0] if deaths and deaths[0].order > event.order else None
        return last is not None and not _may_cause(event.hit.rule.reason, last.hit.rule.reason)

    return [event for event in explicit if not is_survived(event)]


def _may_cause(reason: str, other: str) -> bool:
    return reason == other or other in CAUSES.get(reason, ()) or (reason, other) in _LIKELY


def _most_specific(root: Event, explicit: Sequence[Event]) -> Event:
    """Of several with the same reason, the one with the strongest rule: it names the library or the limit."""
    same = [event for event in explicit if event.hit.rule.reason == root.hit.rule.reason]
    return max(same, key=lambda event: event.hit.rule.strength, default=root) if root in same else root


def _first(explicit: Sequence[Event]) -> Event:
    """The first, except a NaN that is unrelated to later errors, and an unknown class."""
    root = explicit[0]
    if root.hit.rule.reason == "LossNaN":
        others = [event for event in explicit if not _may_follow_nan(event)]
        return others[0] if others else root
    if root.hit.rule.strength < NAMELESS:
        known = [event for event in explicit if event.hit.rule.strength >= WELL_KNOWN]
        return known[0] if known else root
    return root


def _may_follow_nan(event: Event) -> bool:
    """An exception must mention NaN to follow from one."""
    if event.hit.rule.reason == "CUDAError":
        return bool(_ASSERTED.search(event.quote.text))  # an index computed from NaN
    if event.hit.rule.category == "framework" and event.hit.rule.reason != "LossNaN":
        return event.hit.rule.reason in _AFTER_NAN and bool(_NAN.search(event.quote.text))
    return event.hit.rule.reason in _AFTER_NAN


def _not_a_consequence(root: Event, explicit: Sequence[Event], incidental: Sequence[Event]) -> Event:
    """The swallowed error that the one which ended the run follows from."""
    if not root.hit.rule.name.startswith(CONSEQUENCE):
        return root
    before = [event for event in incidental if event.order < root.order and event.hit.rule.strength >= SWALLOWED]
    if before:
        return before[-1]
    later = [event for event in explicit if not event.hit.rule.name.startswith(CONSEQUENCE)]
    return later[0] if later else root


def _with_message(root: Event, explicit: Sequence[Event]) -> Event:
    """Of a class whose message comes some lines later, the event of the message."""
    if not _NO_MESSAGE.search(root.quote.text):
        return root
    below = [event for event in explicit if 0 < event.order - root.order <= MESSAGE_BELOW and event.chain is None]
    return next((event for event in below if event.hit.rule.strength >= CASCADE_STRENGTH), root)


def _missing_since(root: Event, others: Sequence[Event]) -> Event:
    """The earlier failure to fetch or write a file that is missing now."""
    if root.hit.rule.reason not in _OF_FILES:
        return root
    named = set(_PATH.findall(root.quote.text))
    before = [event for event in others if event.order < root.order and event.hit.rule.reason in _KEEPS_FILES_AWAY]
    return next((event for event in before if named.intersection(_PATH.findall(event.quote.text))), root)


def _without_gpu(root: Event, incidental: Sequence[Event]) -> Event:
    """The warning about a mismatched driver, where the program died of having no GPU."""
    if root.hit.rule.reason not in _WITHOUT_GPU or not _OF_GPU.search(root.quote.text):
        return root
    before = [event for event in incidental if event.order < root.order]
    return next((event for event in before if event.hit.rule.reason == "DriverMismatch"), root)


def _behind_timeout(root: Event, cascades: Sequence[Event]) -> Event:
    """A collective timeout before a weak error: the error is its consequence."""
    before = [event for event in cascades if event.order < root.order and event.hit.rule.reason in _TIMED_OUT]
    if (
        before
        and root.hit.rule.strength < CASCADE_STRENGTH
        and root.hit.rule.reason in ("RuntimeError", "ProcessCrashed")
    ):
        return before[0]
    return root


def _without_explicit(incidental: Sequence[Event], cascades: Sequence[Event]) -> Event | None:
    if not cascades:
        return max(incidental, key=lambda event: event.hit.rule.strength, default=None)
    before = [event for event in incidental if event.order < cascades[0].order and _names_an_error(event)]
    if before:
        return before[0]
    strongest = max(event.hit.rule.strength for event in cascades)
    return next(event for event in cascades if event.hit.rule.strength >= strongest - 12)


def _names_an_error(event: Event) -> bool:
    """Well known, or an exception in a line of its own."""
    least = PLAIN if _EXCEPTION.match(event.quote.text) and event.severity not in QUIET else WELL_KNOWN
    return event.hit.rule.strength >= least


def _caused_by(root: Event, others: Sequence[Event]) -> Event:
    for event in others:
        rule = event.hit.rule
        if rule.strength < EXPLICIT or rule.strength <= root.hit.rule.strength:
            continue
        if root.hit.rule.reason in CAUSES.get(rule.reason, ()):
            return event
    return root
