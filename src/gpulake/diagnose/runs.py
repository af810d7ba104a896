"""Where one run of a log ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.diagnose.rule import EXPLAINING
from gpulake.diagnose.story import Event

# A success of this strength is a program's last word: what comes after it is its teardown.
FINAL_WORD = 80


def cut_into_runs(events: Sequence[Event]) -> list[list[Event]]:
    """A run begins where a launcher starts after an end was told, or where another program dies than before."""
    runs: list[list[Event]] = [[]]
    for event in events:
        if runs[-1] and _begins_anew(event, runs[-1]):
            runs.append([])
        runs[-1].append(event)
    return runs


def _begins_anew(event: Event, run: Sequence[Event]) -> bool:
    if event.hit.rule.role == "start":
        return any(_ends(one) for one in run)
    if event.is_uncaught and event.script:
        return any(_is_death_of_another(one, event.script) for one in run)
    return False


def _is_death_of_another(event: Event, script: str) -> bool:
    dead = event.script.removesuffix(".py")
    return bool(dead) and _ends(event) and dead != script.removesuffix(".py") and event.is_uncaught is not False


def _ends(event: Event) -> bool:
    """Nothing of this process comes after this line, but for what the launcher says."""
    rule = event.hit.rule
    if rule.role == "wrapper":
        return True
    if rule.role == "success":
        return rule.strength >= FINAL_WORD
    return rule.role in EXPLAINING and not event.is_ignored and (event.is_uncaught is True or bool(event.script))


def has_end(run: Sequence[Event]) -> bool:
    """Whether the log says how the run ended, be it well or not."""
    return any(event.hit.rule.role in ("success", "wrapper", *EXPLAINING) for event in run)
