"""How a run ended according to its log: successfully, in the middle of work, or without any sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulake.diagnose.cause.suspects import MENTION, is_incidental, is_of_tracker, is_warned
from gpulake.diagnose.story.events import Event, Story
from gpulake.diagnose.story.lines import QUIET
from gpulake.diagnose.story.runs import FINAL_WORD, advances, step

ABORTED = "mlperf_aborted"  # the rule of a run that ended regularly and missed its target
PLAIN_WORD = 60  # a success of this strength is the program's, a weaker one may be the script's around it
ITERATION = "progress_iteration"
LAST_WORDS = 3  # lines at the end of a log within which even a mention counts
LONG_BEFORE_END = 30  # lines after an incidental error that show that it ended nothing
# What ranks report of each other when some have exited already: normal after the last step.
PARTING = {
    *("NCCLRemoteError", "NCCLTimeoutError", "NCCLConfigError", "NetworkError", "ConnectionError"),
    *("HangStraggler", "ProcessCrashed"),
}
_ENDED_FROM_OUTSIDE = {"SlurmTimeLimit", "JobCancelled", "PreemptionSIGTERM", "UserInterrupt"}


def success(story: Story, suspected: Sequence[Event]) -> Event | None:
    """The line that reports success, unless a later failure contradicts it."""
    successes = [event for event in story.events if event.hit.rule.role == "success"]
    final = [event for event in successes if event.hit.rule.strength >= FINAL_WORD]
    if final:
        return final[-1]
    if any(event.hit.rule.name == ABORTED for event in story.events):
        return None
    if successes:
        return successes[-1] if not _takes_back(successes[-1], suspected, story.events) else None
    last = next((event for event in reversed(story.events) if step(event) and event.hit.words.get("total")), None)
    if last is None or not _is_last_step(last):
        return None
    failing = [
        event
        for event in suspected
        if not is_incidental(event)
        and not _is_parting(event, last)
        and (event.is_uncaught or event.order > last.order or event.hit.rule.reason == "LossNaN")
    ]
    return last if not failing else None


def _takes_back(success: Event, suspected: Sequence[Event], events: Sequence[Event]) -> bool:
    after = [event for event in suspected if event.order > success.order and event.hit.rule.role == "cause"]
    inside = [event for event in after if event.hit.rule.reason not in _ENDED_FROM_OUTSIDE]
    failing = [event for event in inside if not is_incidental(event)]
    if any(event.is_uncaught or event.hit.rule.strength >= PLAIN_WORD for event in failing):
        return True
    return _is_of_the_script(success, suspected, events)


def _is_of_the_script(success: Event, suspected: Sequence[Event], events: Sequence[Event]) -> bool:
    """Whether the success is that of the script around the program, which runs on after the program died."""
    is_weak = success.hit.rule.strength < PLAIN_WORD
    failures = [event.order for event in events if event.hit.rule.role == "wrapper"]
    deaths = [event.order for event in suspected if event.is_uncaught and event.order < success.order]
    deaths += [order for order in failures if order < success.order and is_weak]
    if not deaths or any(max(deaths) < order < success.order for order in advances(events)):
        return False
    return is_weak or any(min(deaths) < order for order in failures)


def _is_parting(event: Event, last_step: Event) -> bool:
    is_weak = event.hit.rule.role == "cascade" and not event.is_uncaught
    return is_weak and event.order > last_step.order and event.hit.rule.reason in PARTING


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
