"""Priorities: the highest goes first and displaces lower ones, which restart from their checkpoint."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


def _by_rank(trace: Trace) -> Ints:
    return trace.rank


POLICIES.register("priority")(
    Policy("the highest priority goes first, and displaces", key=_by_rank, preempts="priority")
)
