"""Shortest job first, by past runs of the group (SJG), as in the simulator of the PAI trace (Weng, NSDI 2022)."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


# The reference takes means of the whole trace; here only runs count that had ended.
def _by_group(trace: Trace) -> Ints:
    return trace.by_group


POLICIES.register("sjg")(Policy("shortest first, by the group's past runs", key=_by_group, has_predictions=True))
