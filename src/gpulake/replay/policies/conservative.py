"""Conservative backfill: jobs pass if that delays none before them, as planned by expected run times."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

# The plan is made anew at each event; a machine counts by all its free thousandths, shared GPUs together.
POLICIES.register("conservative")(Policy("jobs pass if that delays none before them", passes="conservative", depth=100))
