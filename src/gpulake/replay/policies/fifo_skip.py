"""First come, first served, but a job that does not fit is passed by those that do."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("fifo_skip")(Policy("first come, first served; whoever fits passes"))
