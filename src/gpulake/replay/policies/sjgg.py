"""Shortest job first, by past runs of the group with as many GPUs: SJGG of the PAI simulator (Weng, NSDI 2022)."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


# The reference takes means of the whole trace; here only runs count that had ended.
def _by_request(trace: Trace) -> Ints:
    return trace.by_request


POLICIES.register("sjgg")(
    Policy("shortest first, by the group's past runs with as many GPUs", key=_by_request, has_predictions=True)
)
