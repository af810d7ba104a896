"""Fair share: the account that used least goes first; what it used counts half after a week."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("fair_share")(Policy("the account that used least goes first", order="shared"))
