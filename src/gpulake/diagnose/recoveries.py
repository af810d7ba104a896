"""What may be done about a reason that no rule named: from our own table, never from a model."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import get_args

from gpulake.core.diagnosis import CATEGORY_OF, Action, Recovery


@cache
def _table() -> dict[str, Recovery]:
    text = files("gpulake.diagnose").joinpath("recoveries.toml").read_text(encoding="utf-8")
    found: dict[str, Recovery] = {}
    for entry in tomllib.loads(text)["recovery"]:
        for reason in entry["reasons"]:
            found[reason] = Recovery(entry["action"], entry["why"])
    return found


def recovery_for(reason: str) -> Recovery:
    """Nothing that takes a node out of service: that wants a rule, or a person."""
    return _table().get(reason, Recovery())


def check() -> list[str]:
    """What is wrong with the table; a test asks."""
    table = _table()
    wrong = [f"no recovery for {reason}" for reason in CATEGORY_OF if reason not in table]
    wrong += [f"{reason} is no reason" for reason in table if reason not in CATEGORY_OF]
    return wrong + [
        f"{reason}: {found.action}" for reason, found in table.items() if found.action not in get_args(Action)
    ]
