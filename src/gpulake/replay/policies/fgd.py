"""Fragmentation gradient descent: where least becomes useless for typical requests (Weng, ATC 2023)."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("fgd")(
    Policy("the machine on which least becomes useless for typical requests", placement="fragments")
)
