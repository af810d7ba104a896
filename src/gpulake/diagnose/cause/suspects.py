"""The events that may be the root cause: those not handled, ignored or part of a chain of exceptions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gpulake.core.diagnosis import CATEGORY_OF
from gpulake.diagnose.rulebook.rule import EXPLAINING
from gpulake.diagnose.story.events import Event
from gpulake.diagnose.story.lines import QUIET
from gpulake.diagnose.story.runs import advances, step

# The difference in strength from which one rule outranks another in a chain.
CLEARLY_STRONGER = 10
# Exceptions caused from outside the program: they are the cause even where they were handled.
_OUTSIDE = {
    *("ImportError", "FileNotFoundError", "PermissionError", "OSError"),
    *("OutOfMemoryError", "HostOOMKilled", "UserInterrupt"),
}
# Signals from outside, wherever in the program they arrive.
_SIGNALS = {"UserInterrupt", "PreemptionSIGTERM", "JobCancelled"}
# Exceptions of which programs make use: a missing key, module or attribute.
_LOOKUPS = {"KeyError", "IndexError", "AttributeError", "ImportError", "FileNotFoundError"}
SPECIFIC = 55  # a rule of this strength knows the message, not only the class
# A rule below this strength is only a hint, unless there is a traceback.
HINT = 25
# Rules of mentions, whatever their severity: they count where another error follows from them.
MENTION = "mention_"
# Families of rules that match an exception by its class: without a traceback it is only mentioned.
_BY_CLASS = ("python", "exceptions")
# Slurm kills the remaining tasks of a failed step, and the step of a failed task.
SWEPT_AFTER = {
    "srun_task_killed": ("srun_tears_down", "srun_task_exited"),
    "slurm_step_cancelled": ("srun_task_exited",),
}
_WARNING = re.compile(r"\b(?:User|Runtime|Future|Deprecation|Import|Resource)?Warning: ")
_TRACKER = re.compile(r"\W{0,3}(?:wandb|comet|comet_ml|swanlab|mlflow|clearml|tensorboard)\b", re.IGNORECASE)
_STEPS_AFTER = 2  # steps after an error that show that it was handled
_FINITE_AGAIN = 5  # steps after a NaN that show that training recovered
_STEPS_FROM_START = 3  # the same, where there was no step before


def suspects(events: Sequence[Event]) -> list[Event]:
    """Events that can explain the story, in order; a chain of exceptions is represented by its root."""
    chains: dict[tuple[str, int], list[Event]] = defaultdict(list)
    found: list[Event] = []
    rules_so_far: set[str] = set()  # rules that were met so far
    for event in events:
        rules_so_far.add(event.hit.rule.name)
        if event.hit.rule.role not in EXPLAINING or (event.is_ignored and event.hit.rule.reason not in _SIGNALS):
            continue
        if rules_so_far.intersection(SWEPT_AFTER.get(event.hit.rule.name, ())):
            continue
        if event.chain is None:
            found.append(event)
        else:
            chains[event.quote.file, event.chain].append(event)
    found += [_root_of_chain(chain) for chain in chains.values()]
    return sorted(found, key=lambda event: event.order)


def _root_of_chain(chain: Sequence[Event]) -> Event:
    root = chain[0]
    for event in chain[1:]:
        if event.link == "origin" or not _stays(root, event):
            root = event
    # If one of the chain was uncaught, all were.
    return replace(root, is_uncaught=True) if any(event.is_uncaught for event in chain) else root


def _stays(root: Event, later: Event) -> bool:
    """Whether the earlier of two linked exceptions is the root."""
    if root.hit.rule.reason == later.hit.rule.reason:
        return True
    if later.link == "context" and _is_accident(root, later):
        return True
    if later.hit.rule.strength >= root.hit.rule.strength + CLEARLY_STRONGER:
        return False
    if later.link == "cause":
        return root.hit.rule.strength > 20
    return is_of_outside(root)


def _is_accident(root: Event, later: Event) -> bool:
    """Whether the later one is a mistake of the code that handled or cleaned up after the first.

    A handler that explains what happened raises by a statement; lookups that miss are caught as a matter of course.
    """
    if later.raised_by is None or later.hit.rule.strength >= SPECIFIC or root.hit.rule.reason in _LOOKUPS:
        return False
    return not later.raised_by.text.startswith("raise") and root.hit.rule.strength > HINT - 1


def is_of_outside(event: Event) -> bool:
    reason = event.hit.rule.reason
    return reason in _OUTSIDE or CATEGORY_OF.get(reason) == "infrastructure"


def is_incidental(event: Event) -> bool:
    """A warning, part of a logger's message, or an exception without its traceback."""
    if event.is_uncaught:
        return False
    if event.is_uncaught is False:
        return event.hit.rule.reason not in _SIGNALS
    return _is_in_passing(event) or _is_informational(event)


def _is_in_passing(event: Event) -> bool:
    if event.hit.rule.name.startswith(MENTION) or is_warned(event):
        return True
    return is_bare(event) and (event.hit.rule.strength < HINT or is_of_tracker(event))


def _is_informational(event: Event) -> bool:
    if _is_nan(event):
        return False  # losses are logged as information
    if event.severity in QUIET and event.hit.rule.strength < 75:
        return True
    return event.chain is None and (event.hit.rule.family in _BY_CLASS or event.hit.rule.strength < HINT)


def is_warned(event: Event) -> bool:
    """Printed by Python's warnings, after which the program continues."""
    return event.chain is None and _WARNING.search(event.quote.text) is not None


def is_of_tracker(event: Event) -> bool:
    """Printed by the client of an experiment tracker, whose errors do not end a job."""
    return _TRACKER.match(event.quote.text) is not None


def is_bare(event: Event) -> bool:
    """It has no traceback: another program may have printed it."""
    return event.chain is None or len(event.traceback) <= 1 or event.first_line == event.quote.line


class Handled:
    """Whether work continued after an error. An error that ended its process was not handled."""

    def __init__(self, events: Sequence[Event]) -> None:
        measured = [event.order for event in events if event.hit.rule.role == "progress" and step(event) is None]
        self._advances = sorted([*advances(events), *measured])
        self._last_nan = max((event.order for event in events if _is_nan(event)), default=0)

    def __call__(self, event: Event) -> bool:
        if event.is_uncaught:
            return False
        since = self._last_nan if _is_nan(event) else event.order
        before = bisect_right(self._advances, since)
        enough = _STEPS_AFTER if before or event.chain is None else _STEPS_FROM_START
        return len(self._advances) - before >= (_FINITE_AGAIN if _is_nan(event) else enough)


def _is_nan(event: Event) -> bool:
    return event.hit.rule.reason == "LossNaN"
