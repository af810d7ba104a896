"""What may be done about a reason that no rule named: from our own table, never from a model."""

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
    """Nothing that takes a node out of service: that wants a rule, or a person."""
    return _table().get(reason, Recovery())
