"""How a run ended according to its log: successfully, in the middle of work, or without any sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulake.diagnose.cause.suspects import MENTION, Handled, is_bare, is_incidental, is_of_tracker, is_warned
from gpulake.diagnose.story.events import Event, Story
from gpulake.diagnose.story.lines import QUIET
from gpulake.diagnose.story.runs import FINAL_WORD, advances, step

ABORTED = "mlperf_aborted"  # the rule of a run that ended regularly and missed its target
PLAIN_WORD = 60  # an error of this strength needs no traceback to be one
STEPS_AFTER_DEATH = 2  # steps after a failed process that show that the job went on
ITERATION = "progress_iteration"
LAST_WORDS = 3  # lines at the end of a log within which even a mention counts
LONG_BEFORE_END = 30  # lines after an incidental error that show that it ended nothing
# What ranks report of each other when some have exited already: normal after the last step.
PARTING = {
    *("NCCLRemoteError", "NCCLTimeoutError", "NCCLConfigError", "NetworkError", "ConnectionError"),
    "HangStraggler",
}
# What ended a process, although no process could print it.
_DEATHS = {"HostOOMKilled", "ProcessKilled", "ProcessCrashed", "DataloaderKilled", "LossNaN"}
_ENDED_FROM_OUTSIDE = {"SlurmTimeLimit", "JobCancelled", "PreemptionSIGTERM", "UserInterrupt"}
LAUNCHER = 25  # a wrapper of this strength reports a process, a weaker one a thread or a pool
AGREED = "mlperf_success"  # the result of a whole benchmark, whatever its processes print while they exit


def success(story: Story, suspected: Sequence[Event]) -> Event | None:
    """The line that reports success, if nothing in the run contradicts it.

    Programs print such lines in a `finally`, scripts around them at their end, and clients of trackers when they exit.
    """
    successes = [event for event in story.events if event.hit.rule.role == "success"]
    if any(event.hit.rule.name == AGREED for event in successes):
        return next(event for event in reversed(successes) if event.hit.rule.name == AGREED)
    if any(event.hit.rule.name == ABORTED for event in story.events):
        return None
    final = [event for event in successes if event.hit.rule.strength >= FINAL_WORD]
    counted = [event for event in story.events if step(event) and event.hit.words.get("total")][-1:]
    reported = final or successes or [event for event in counted if _is_last_step(event)]
    return reported[-1] if reported and not _is_contradicted(reported[-1], story.events, suspected) else None


def _is_contradicted(well: Event, events: Sequence[Event], suspected: Sequence[Event]) -> bool:
    steps = advances(events)

    def is_final(event: Event) -> bool:
        """No work followed it."""
        return sum(order > event.order for order in steps) < STEPS_AFTER_DEATH

    if any(failed_launcher(event) and is_final(event) for event in events):
        return True
    if well.hit.rule.strength >= FINAL_WORD:
        return False  # the launcher saw every process exit with 0
    is_handled = Handled(events)
    return any(_contradicts(event, well) for event in suspected if not is_incidental(event) and not is_handled(event))


def _contradicts(event: Event, well: Event) -> bool:
    rule = event.hit.rule
    if event.is_uncaught or rule.reason in _DEATHS:
        return not _is_parting(event, well)
    if rule.role == "cascade":
        return rule.reason in _ENDED_FROM_OUTSIDE and event.order > well.order
    if event.order < well.order:
        return not is_bare(event) and rule.strength >= PLAIN_WORD
    return rule.strength >= PLAIN_WORD or rule.reason in _ENDED_FROM_OUTSIDE


def failed_launcher(event: Event) -> bool:
    return event.hit.rule.role == "wrapper" and event.hit.rule.strength >= LAUNCHER


def _is_parting(event: Event, well: Event) -> bool:
    is_weak = event.hit.rule.role == "cascade" and not event.is_uncaught
    return is_weak and event.order > well.order and event.hit.rule.reason in PARTING


def _is_last_step(event: Event) -> bool:
    counter, total = step(event), event.hit.words.get("total")
    return counter is not None and total is not None and counter[1] >= float(total) > 1


@dataclass(frozen=True)
class Silence:
    """A log without an error that explains its end."""

    story: Story

    @property
    def is_midway(self) -> bool:
        """Whether a counter has not reached its total."""
        counters: dict[tuple[str, str], Event] = {}
        for event in self.story.events:
            if counter := step(event):
                counters[counter[0]] = event
        if not counters:
            return not self.story.last_lines
        last = max(counters.values(), key=lambda event: event.order)
        announced = [event for key, event in counters.items() if key[1] and (key[0] == ITERATION or event is last)]
        if any(not _is_done(event, self.story.events) for event in announced):
            return True
        last_lines = self.story.last_lines
        return not announced and (not last_lines or last_lines[-1].line <= last.quote.line)

    def is_only_incidental(self, root: Event) -> bool:
        """Whether it is a warning, or many lines follow it."""
        if root.chain is not None or root.hit.rule.role != "cause" or not is_incidental(root):
            return False
        last = self.story.last_lines[-1].line if self.story.last_lines else 0
        is_mention = root.hit.rule.name.startswith(MENTION)
        enough = LAST_WORDS if is_mention else LONG_BEFORE_END
        return root.severity in QUIET or is_of_tracker(root) or is_warned(root) or last - root.quote.line > enough


def _is_done(event: Event, events: Sequence[Event]) -> bool:
    """Counters that begin with 0 end at total - 1."""
    counter, total = step(event), float(event.hit.words.get("total") or 0)
    if counter is None or counter[1] >= total:
        return True
    of_same = [other[1] for one in events if (other := step(one)) and other[0] == counter[0]]
    return counter[1] == total - 1 and min(of_same) == 0
