"""Least attained service, in levels, with preemption (Tiresias; Gu, NSDI 2019)."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

# Levels are looked at when jobs arrive and end; a displaced job keeps its work.
POLICIES.register("las")(
    Policy("least GPU time attained goes first, and displaces", order="attained", preempts="attained")
)
