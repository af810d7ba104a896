"""Reserve and pack: machines of the high tier are for large jobs, all are packed (PAI; Weng, NSDI 2022)."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("reserve_and_pack")(
    Policy("large jobs take machines of the high tier first, others last; all are packed", placement="pack")
)
