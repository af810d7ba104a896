"""Where one run of a log ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.diagnose.rule import EXPLAINING
from gpulake.diagnose.story import Event

# A success of this strength is a program's last word: what comes after it is its teardown.
FINAL_WORD = 80
# So many lines between two deaths of one program are the work of another process.
WORK_BETWEEN_DEATHS = 12
VAGUE = 25  # a rule of this strength may tell of no more than that another program failed
STEPS_OF_ANOTHER = 3  # steps after a death that show that another run goes on
_LAUNCHED_TOGETHER = ("launchers", "nccl")  # families of rules that tell of several processes
_AFTERMATH = ("wrapper", "teardown", "cascade", "noise", "clue")


def cut_into_runs(events: Sequence[Event]) -> list[list[Event]]:
    """A run begins where a launcher starts after an end was told, and where a program dies that was dead already."""
    runs: list[list[Event]] = [[]]
    for event in events:
        run = runs[-1]
        if event.hit.rule.role == "start" and any(_ends(one) for one in run):
            runs.append([])
        elif is_death(event) and (old := _old_death(event, run)) is not None:
            cut = _end_of_aftermath(run, old)
            runs[-1], rest = run[:cut], run[cut:]
            runs.append(rest)
        runs[-1].append(event)
    return [part for run in runs if run for part in _cut_at_progress(run)] or [[]]


def _cut_at_progress(run: list[Event]) -> list[list[Event]]:
    """Ranks of one job stand still when one of them is dead: steps that go on are of another run."""
    death = next((index for index, event in enumerate(run) if is_death(event) and event.is_uncaught), None)
    if death is None:
        return [run]
    reached = steps(run[:death])
    first, found = None, set()
    for index in range(death + 1, len(run)):
        key, number = step(run[index]) or (None, 0.0)
        if key is not None and (key not in reached or number > reached[key]):
            first = index if first is None else first
            found.add((key, number))
    if first is None or len(found) < STEPS_OF_ANOTHER:
        return [run]
    return [run[:first], *_cut_at_progress(run[first:])]


def step(event: Event) -> tuple[tuple[str, str], float] | None:
    """Which counter the line tells of, and how far it has come."""
    if event.hit.rule.role != "progress":
        return None
    words = event.hit.words
    try:
        return (event.hit.rule.name, words.get("total", "")), float(words["step"])
    except (KeyError, ValueError):
        return None


def steps(events: Sequence[Event]) -> dict[tuple[str, str], float]:
    """How far each counter came."""
    reached: dict[tuple[str, str], float] = {}
    for event in events:
        if told := step(event):
            reached[told[0]] = max(reached.get(told[0], told[1]), told[1])
    return reached


def is_death(event: Event) -> bool:
    """A process ended here by itself: an exception that nobody caught, or a refusal of its arguments."""
    if event.hit.rule.role not in EXPLAINING or event.is_ignored or event.is_uncaught is False:
        return False
    return bool(event.script) or (event.chain is not None and bool(event.traceback))


def _old_death(event: Event, run: Sequence[Event]) -> int | None:
    """Where in the run a program died that cannot be this one. Ranks of one job die together."""
    last = next((index for index in range(len(run) - 1, -1, -1) if is_death(run[index])), None)
    if last is None or event.hit.rule.role != "cause" or (run[last].chain == event.chain and event.chain is not None):
        return None
    are_ranks = None not in (event.rank, run[last].rank) and event.rank != run[last].rank
    if are_ranks or event.speaker != run[last].speaker:
        return None
    dead, dying = run[last].script.removesuffix(".py"), event.script.removesuffix(".py")
    if dead and dying and dead != dying and event.hit.rule.strength > VAGUE:
        return last
    if any(one.hit.rule.family in _LAUNCHED_TOGETHER for one in run[: last + 1]):
        return None
    began = event.first_line if event.first_line is not None else event.quote.line
    told = sum(one.hit.rule.role in _AFTERMATH for one in run[last + 1 :])
    return last if began - run[last].quote.line - told > WORK_BETWEEN_DEATHS else None


def _end_of_aftermath(run: Sequence[Event], death: int) -> int:
    cut = death + 1
    while cut < len(run) and run[cut].hit.rule.role in _AFTERMATH:
        cut += 1
    return cut


def _ends(event: Event) -> bool:
    """Nothing of this process comes after this line, but for what the launcher says."""
    rule = event.hit.rule
    if rule.role == "wrapper":
        return True
    if rule.role == "success":
        return rule.strength >= FINAL_WORD
    return is_death(event) and (event.is_uncaught is True or bool(event.script))


def has_end(run: Sequence[Event]) -> bool:
    """Whether the log says how the run ended, be it well or not."""
    return any(event.hit.rule.role in ("success", "wrapper", *EXPLAINING) for event in run)
