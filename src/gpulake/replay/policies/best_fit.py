"""Gangs go to the fullest machines that have room."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("best_fit")(Policy("the fullest machine that has room", placement="best"))
