"""Shortest job first, by past runs of the user (SJU), as in the simulator of the PAI trace (Weng, NSDI 2022)."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


# The reference takes means of the whole trace; here only runs count that had ended.
def _by_user(trace: Trace) -> Ints:
    return trace.by_user


POLICIES.register("sju")(Policy("shortest first, by the user's past runs", key=_by_user, has_predictions=True))
