"""Gangs go to the emptiest machines."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("worst_fit")(Policy("the emptiest machine", placement="worst"))
