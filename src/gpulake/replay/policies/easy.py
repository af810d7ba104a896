"""EASY backfill: jobs pass the first that does not fit if that does not delay it (Lifka, 1995)."""

from __future__ import annotations

from gpulake.replay.policies import POLICIES, Policy

POLICIES.register("easy")(Policy("jobs pass the first blocked one if that does not delay it", passes="easy"))
