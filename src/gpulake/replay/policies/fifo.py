"""First come, first served: nobody passes a job that does not fit."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("fifo")(Policy("first come, first served; nobody passes", depth=1))
