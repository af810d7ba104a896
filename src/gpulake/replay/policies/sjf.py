"""Shortest job first, by the run time that users ask for."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


def _by_estimate(trace: Trace) -> Ints:
    return trace.estimate


POLICIES.register("sjf")(Policy("shortest first, by what users ask for", key=_by_estimate))
