"""Where one run of a log ends and the next begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpulake.diagnose.rulebook.rule import EXPLAINING
from gpulake.diagnose.story.events import Event

# After a success of this strength only teardown follows.
FINAL_WORD = 80
# With more lines between two deaths of one program, the second is of another process.
WORK_BETWEEN_DEATHS = 12
VAGUE = 25  # a rule of this strength may only report that another program failed
STEPS_OF_ANOTHER = 3  # steps after a death that show another run
AT_ONCE = 3  # lines after an exception within which its own program goes on: another one has to start first
_LAUNCHED_TOGETHER = ("launchers", "nccl")  # families of rules about several processes
_AFTERMATH = ("wrapper", "teardown", "cascade", "noise", "clue")


def cut_into_runs(events: Sequence[Event]) -> list[list[Event]]:
    """A run begins where a launcher starts after an end, and where a program dies that was already dead."""
    runs = [_Run()]
    for event in _without_survived(events):
        run = runs[-1]
        if event.hit.rule.role == "start" and run.has_ended:
            runs.append(_Run())
        elif is_death(event) and run.death is not None and _is_of_another(event, run):
            cut = _end_of_aftermath(run.events, run.death)
            rest = run.events[cut:]
            del run.events[cut:]
            runs.append(_Run())
            for one in rest:
                runs[-1].add(one)
        runs[-1].add(event)
    return [part for run in runs if run.events for part in _cut_at_progress(run.events)] or [[]]


def _without_survived(events: Sequence[Event]) -> list[Event]:
    """An exception that was printed between steps of one program was caught, whatever its traceback looks like."""
    found = list(events)
    reached: dict[tuple[str, str], float] = {}
    for index, event in enumerate(events):
        if counter := step(event):
            reached[counter[0]] = counter[1]
        elif event.is_uncaught and event.rank is None and reached and _goes_on(events[index + 1 :], event, reached):
            found[index] = replace(event, is_uncaught=False)
    return found


def _goes_on(later: Sequence[Event], event: Event, reached: Mapping[tuple[str, str], float]) -> bool:
    steps: list[Event] = []
    for one in later:
        counter = step(one)
        if counter is None:
            if one.hit.rule.role == "start":
                return False
            continue
        if not steps and (
            one.quote.line - event.quote.line > AT_ONCE or counter[1] <= reached.get(counter[0], counter[1])
        ):
            return False
        steps.append(one)
        if len(steps) >= STEPS_OF_ANOTHER:
            return True
    return False


@dataclass
class _Run:
    events: list[Event] = field(default_factory=list)
    death: int | None = None  # index of the last one
    has_ended: bool = False
    is_of_many: bool = False  # several processes were launched together, known before the last death
    has_many: bool = False

    def add(self, event: Event) -> None:
        self.has_many = self.has_many or event.hit.rule.family in _LAUNCHED_TOGETHER
        self.has_ended = self.has_ended or _ends(event)
        if is_death(event):
            self.death, self.is_of_many = len(self.events), self.has_many
        self.events.append(event)


def _cut_at_progress(run: list[Event]) -> list[list[Event]]:
    """Ranks of a job stop when one of them dies: further steps are of another run."""
    parts, begin = [], 0
    reached: dict[tuple[str, str], float] = {}
    going: list[int] = []  # indices of steps that went on after a death
    is_dead = False
    for index, event in enumerate(run):
        if counter := step(event):
            if is_dead and counter[1] > reached.get(counter[0], -1.0):
                going.append(index)
            reached[counter[0]] = max(reached.get(counter[0], counter[1]), counter[1])
        if len(going) >= STEPS_OF_ANOTHER:
            parts.append(run[begin : going[0]])
            begin, going, is_dead = going[0], [], False
        if is_death(event) and event.is_uncaught and not is_dead:
            is_dead, going = True, []
    return [*parts, run[begin:]]


def is_death(event: Event) -> bool:
    """A process ended here: an uncaught exception, or a usage error."""
    if event.hit.rule.role not in EXPLAINING or event.is_ignored or event.is_uncaught is False:
        return False
    return bool(event.script) or (event.chain is not None and bool(event.traceback))


def _is_of_another(event: Event, run: _Run) -> bool:
    """Whether this is the death of another program than the last one. Ranks of one job die together."""
    last = run.events[run.death or 0]
    if event.hit.rule.role != "cause" or (last.chain == event.chain and event.chain is not None):
        return False
    are_ranks = None not in (event.rank, last.rank) and event.rank != last.rank
    if are_ranks or event.speaker != last.speaker:
        return False
    dead, dying = last.script.removesuffix(".py"), event.script.removesuffix(".py")
    if dead and dying and dead != dying and event.hit.rule.strength > VAGUE:
        return True
    if run.is_of_many:
        return False
    began = event.first_line if event.first_line is not None else event.quote.line
    aftermath = sum(one.hit.rule.role in _AFTERMATH for one in run.events[(run.death or 0) + 1 :])
    return began - last.quote.line - aftermath > WORK_BETWEEN_DEATHS


def step(event: Event) -> tuple[tuple[str, str], float] | None:
    """The counter of a progress line, and its value."""
    if event.hit.rule.role != "progress":
        return None
    words = event.hit.words
    try:
        return (event.hit.rule.name, words.get("total", "")), float(words["step"])
    except (KeyError, ValueError):
        return None


def advances(events: Sequence[Event]) -> list[int]:
    """The orders of the events at which a counter went up. Those of an epoch begin anew in the next."""
    last: dict[tuple[str, str], float] = {}
    orders = []
    for event in events:
        if counter := step(event):
            if counter[1] > last.get(counter[0], -1.0):
                orders.append(event.order)
            last[counter[0]] = counter[1]
    return orders


def _end_of_aftermath(run: Sequence[Event], death: int) -> int:
    cut = death + 1
    while cut < len(run) and run[cut].hit.rule.role in _AFTERMATH:
        cut += 1
    return cut


def _ends(event: Event) -> bool:
    """Only lines of the launcher follow this one."""
    rule = event.hit.rule
    if rule.role == "wrapper":
        return True
    if rule.role == "success":
        return rule.strength >= FINAL_WORD
    return is_death(event) and (event.is_uncaught is True or bool(event.script))


def has_end(run: Sequence[Event]) -> bool:
    """Whether the log shows how the run ended."""
    return any(event.hit.rule.role in ("success", "wrapper", *EXPLAINING) for event in run)
