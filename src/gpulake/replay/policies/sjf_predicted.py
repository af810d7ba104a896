"""Shortest job first, by the run time predicted from earlier jobs of the same group and user."""

from __future__ import annotations

from gpulake.replay.kernel.arrays import Ints
from gpulake.replay.policies import POLICIES, Policy
from gpulake.replay.trace import Trace


def _by_prediction(trace: Trace) -> Ints:
    return trace.predicted


POLICIES.register("sjf_predicted")(
    Policy("shortest first, as predicted from the past", key=_by_prediction, has_predictions=True)
)
