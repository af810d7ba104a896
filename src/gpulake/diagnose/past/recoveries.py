"""The recovery of a reason without a rule: from a table, never from a model."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from gpulake.core.diagnosis import Recovery


@cache
def _table() -> dict[str, Recovery]:
    text = files("gpulake.diagnose.past").joinpath("recoveries.toml").read_text(encoding="utf-8")
    found: dict[str, Recovery] = {}
    for entry in tomllib.loads(text)["recovery"]:
        for reason in entry["reasons"]:
            found[reason] = Recovery(entry["action"], entry["why"])
    return found


def recovery_for(reason: str) -> Recovery:
    """Never one that takes a node out of service: that needs a rule or a person."""
    return _table().get(reason, Recovery())
