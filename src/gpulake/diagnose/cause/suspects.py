"""Which lines of a story may be its root cause: what was handled, ignored or only a link of a chain is not."""

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

# A rule that is so much stronger than another one knows more of what happened.
CLEARLY_STRONGER = 10
# Exceptions of the world outside the program: whatever handles them, they are what went wrong.
_OUTSIDE = {
    "ImportError",
    "FileNotFoundError",
    "PermissionError",
    "OSError",
    "OutOfMemoryError",
    "HostOOMKilled",
    "UserInterrupt",
}
# A signal from outside is what it is, wherever in the program it strikes.
_SIGNALS = {"UserInterrupt", "PreemptionSIGTERM", "JobCancelled"}
# A rule below this strength gives a hint, unless a traceback stands behind it.
HINT = 25
# Rules of what is said in passing, however loud: it counts where something else follows from it.
MENTION = "mention_"
# Families of rules that know an exception by its class: without its traceback it is only spoken of.
_BY_CLASS = ("python",)
# Slurm ends the tasks that are left when a step is given up, and the step when one of its tasks has failed.
SWEPT_AFTER = {
    "srun_task_killed": ("srun_tears_down", "srun_task_exited"),
    "slurm_step_cancelled": ("srun_task_exited",),
}
_WARNING = re.compile(r"\b(?:User|Runtime|Future|Deprecation|Import|Resource)?Warning: ")
_TRACKER = re.compile(r"\W{0,3}(?:wandb|comet|comet_ml|swanlab|mlflow|clearml|tensorboard)\b", re.IGNORECASE)
_GOES_ON = 2  # steps after an error that show that it was handled
_FINITE_AGAIN = 5  # steps after a NaN that show that training recovered
_GOES_ON_FROM_START = 3  # the same, where nothing had gone before


def suspects(events: Sequence[Event]) -> list[Event]:
    """Events that can explain the story, a chain of exceptions told by its root, in order."""
    chains: dict[tuple[str, int], list[Event]] = defaultdict(list)
    found: list[Event] = []
    told: set[str] = set()  # rules that were met so far
    for event in events:
        told.add(event.hit.rule.name)
        if event.hit.rule.role not in EXPLAINING or (event.is_ignored and event.hit.rule.reason not in _SIGNALS):
            continue
        if told.intersection(SWEPT_AFTER.get(event.hit.rule.name, ())):
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
    # What became of the last one became of all.
    return replace(root, is_uncaught=True) if any(event.is_uncaught for event in chain) else root


def _stays(root: Event, later: Event) -> bool:
    """Whether the earlier exception of two is the root: by what is known of them, and by how they are linked."""
    if root.hit.rule.reason == later.hit.rule.reason:
        return True
    if later.hit.rule.strength >= root.hit.rule.strength + CLEARLY_STRONGER:
        return False
    if later.link == "cause":
        return root.hit.rule.strength > 20
    return is_of_outside(root)


def is_of_outside(event: Event) -> bool:
    reason = event.hit.rule.reason
    return reason in _OUTSIDE or CATEGORY_OF.get(reason) == "infrastructure"


def is_muttered(event: Event) -> bool:
    """Said in passing: as a warning, within a logger's message, or without the traceback that it should end."""
    if event.is_uncaught:
        return False
    if event.is_uncaught is False:
        return event.hit.rule.reason not in _SIGNALS
    return _is_by_the_way(event) or _is_told_as_information(event)


def _is_by_the_way(event: Event) -> bool:
    if event.hit.rule.name.startswith(MENTION) or is_warned(event):
        return True
    return is_bare(event) and (event.hit.rule.strength < HINT or is_of_tracker(event))


def _is_told_as_information(event: Event) -> bool:
    if _is_nan(event):
        return False  # losses are told as information, whatever they are
    if event.severity in QUIET and event.hit.rule.strength < 75:
        return True
    return event.chain is None and (event.hit.rule.family in _BY_CLASS or event.hit.rule.strength < HINT)


def is_warned(event: Event) -> bool:
    """Said by Python's warnings, after which the program goes on."""
    return event.chain is None and _WARNING.search(event.quote.text) is not None


def is_of_tracker(event: Event) -> bool:
    """Said by the client of an experiment tracker, which never ends a job by a line of its own."""
    return _TRACKER.match(event.quote.text) is not None


def is_bare(event: Event) -> bool:
    """No traceback stands behind it: another program may have said it in passing."""
    return event.chain is None or len(event.traceback) <= 1 or event.first_line == event.quote.line


class Handled:
    """Tells whether the work went on after an error. What ended its process was not handled, whatever others did."""

    def __init__(self, events: Sequence[Event]) -> None:
        measured = [event.order for event in events if event.hit.rule.role == "progress" and step(event) is None]
        self._advances = sorted([*advances(events), *measured])
        self._last_nan = max((event.order for event in events if _is_nan(event)), default=0)

    def __call__(self, event: Event) -> bool:
        if event.is_uncaught:
            return False
        since = self._last_nan if _is_nan(event) else event.order
        before = bisect_right(self._advances, since)
        enough = _GOES_ON if before or event.chain is None else _GOES_ON_FROM_START
        return len(self._advances) - before >= (_FINITE_AGAIN if _is_nan(event) else enough)


def _is_nan(event: Event) -> bool:
    return event.hit.rule.reason == "LossNaN"
