"""Policies of a scheduler, one file each: what goes first, what may pass it, and which machine a job gets.

A policy is data that the simulator reads. Third parties add theirs through entry points of the group
`gpulake.replay.policies`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.registry import Registry
from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.trace import Trace

PASSES = ("skip", "easy", "conservative")
PLACEMENTS = ("first", "best", "worst", "pack", "fragments")
ORDERS = ("static", "attained", "shared")
PREEMPTIONS = ("never", "priority", "attained")


def by_submission(trace: Trace) -> Ints:
    return trace.submit


@dataclass(frozen=True)
class Policy:
    words: str  # what it does, in a sentence
    passes: str = "skip"  # what may start behind a job that does not fit
    depth: int = 0  # blocked jobs after which the rest of the queue waits; 0: none
    placement: str = "first"
    order: str = "static"  # by key; or by GPU time attained; or by the account's usage
    key: Callable[[Trace], Ints] = by_submission  # lower goes first
    preempts: str = "never"
    has_predictions: bool = False  # run times are predicted from the past, not taken from what users ask for

    def __post_init__(self) -> None:
        for kind, value, known in (
            ("pass", self.passes, PASSES),
            ("placement", self.placement, PLACEMENTS),
            ("order", self.order, ORDERS),
            ("preemption", self.preempts, PREEMPTIONS),
        ):
            if value not in known:
                raise UsageError(f"no {kind} named {value!r}", choice_hint(value, known))
        if self.preempts != "never" and self.passes != "skip":
            raise UsageError(f"a policy with passes {self.passes!r} cannot preempt", "use passes 'skip'")
        if (self.preempts == "attained") != (self.order == "attained"):
            raise UsageError("order and preemption by attained time go together", "set both, or neither")


POLICIES: Registry[Policy] = Registry("policy", "gpulake.replay.policies")
