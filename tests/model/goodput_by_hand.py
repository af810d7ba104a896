"""What became of the time of a training run, in plain Python written from docs/training.md: no code of the models.

A run is the moments at which steps, evaluations and checkpoints were logged; its job is the times of its attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

STALL = 5
PARTS = ("productive", "startup", "repeated", "restart", "checkpoint", "evaluation", "stall", "ending")
Span = tuple[float, float]


@dataclass
class Story:
    logged: list[tuple[int, float]]  # step and moment, in the order of time; times in seconds
    evaluated: list[float] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    held: list[Span] = field(default_factory=list)  # by attempts, one after another; empty: no job is known
    gpus: int = 1


def parts_of(story: Story) -> dict[str, float]:
    """Seconds; empty where nothing can be said."""
    if len(story.logged) < 2:
        return {}
    spent = dict.fromkeys(PARTS, 0.0)
    rows = list(pairwise(story.logged))
    forward = [(step - last, at - before) for (last, before), (step, at) in rows if step > last]
    usual_step = median(took / steps for steps, took in forward) if forward else None
    usual_row = median(took for _, took in forward) if forward else 0.0
    furthest = story.logged[0][0]
    for (last, before), (step, at) in rows:
        took = at - before
        is_restart = step <= last
        usual = usual_row if is_restart or usual_step is None else usual_step * (step - last)
        cause = _cause(story, before, at, is_restart, took > STALL * usual)
        work = took if cause is None else min(took, usual)
        if cause is not None:
            spent[cause] += took - work
        repeated = 1.0 if is_restart else max(0, min(furthest, step) - last) / (step - last)
        spent["repeated"] += work * repeated
        spent["productive"] += work * (1 - repeated)
        furthest = max(furthest, step)
    _at_the_edges(story, spent, usual_row)
    return spent


def _cause(story: Story, before: float, at: float, is_restart: bool, is_slow: bool) -> str | None:
    if is_restart:
        return "restart"
    if story.held and any(before < moment <= at for moment in story.saved):
        return "checkpoint"
    if any(before < moment <= at for moment in story.evaluated):
        return "evaluation"
    return "stall" if is_slow else None


def _at_the_edges(story: Story, spent: dict[str, float], usual_row: float) -> None:
    moments = [at for _, at in story.logged] + story.evaluated
    begin = min([*moments, *(begin for begin, _ in story.held)])
    end = max([*moments, *(end for _, end in story.held)])
    before = story.logged[0][1] - begin
    spent["productive"] += min(before, usual_row)
    spent["startup"] += max(0.0, before - usual_row)
    spent["ending"] += end - story.logged[-1][1]
    released = sum(later - sooner for (_, sooner), (later, _) in pairwise(story.held))
    spent["restart"] = max(0.0, spent["restart"] - released)


def gpu_hours_of(story: Story, spent: dict[str, float]) -> dict[str, float | None]:
    return {part: story.gpus * seconds / 3600 if story.held else None for part, seconds in spent.items()}


def held_seconds(held: Sequence[Span]) -> float:
    return sum(end - begin for begin, end in held)
