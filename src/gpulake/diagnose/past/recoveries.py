"""The recovery of a reason without a rule: from a table, never from a model."""

from __future__ import annotations

from functools import cache

from gpulake.core.diagnosis import Recovery
from gpulake.core.packaged import packaged_toml


@cache
def _table() -> dict[str, Recovery]:
    found: dict[str, Recovery] = {}
    for entry in packaged_toml("gpulake.diagnose.past", "recoveries.toml")["recovery"]:
        for reason in entry["reasons"]:
            found[reason] = Recovery(entry["action"], entry["why"])
    return found


def recovery_for(reason: str) -> Recovery:
    """Never one that takes a node out of service: that needs a rule or a person."""
    return _table().get(reason, Recovery())
