"""What Slurm says of a node: its condition in one word, its GPUs, and why it is in the state that it is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulake.formats import slurm as words
from gpulake.formats.json_items import items
from gpulake.formats.scontrol import utc_text

# Of the words of a state the first that stands here decides; `idle` and `allocated` say nothing more than up.
CONDITIONS = {
    "future": ("FUTURE", "FUTR"),
    "down": ("DOWN", "ERROR", "INVAL", "INVALID", "INVALID_REG"),
    "failed": ("FAIL", "FAILING", "FAILG"),
    "drained": ("DRAIN", "DRAINED", "DRAINING", "DRNG"),
    "maintenance": ("MAINT", "MAINTENANCE"),
    "not_responding": ("NOT_RESPONDING", "NO_RESPOND", "REBOOT_ISSUED"),
    "unknown": ("UNKNOWN", "UNK"),
    "powered_down": ("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POW_DN", "POWERING_UP", "POWER_UP", "POW_UP"),
    "reserved": ("RESERVED", "RESV"),
}
# Signs that sinfo and older versions append to a state.
SIGNS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN"}
SIGNS |= {"$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED"}
BASES = ("ALLOC", "ALLOCATED", "MIX", "MIXED", "COMP", "COMPLETING")
STATE = re.compile(r"[A-Za-z_]+(?:[*~#!%$@^-]*\+?[A-Za-z_]*)*[*~#!%$@^-]*\+?")
REASON = re.compile(r"(?P<reason>.*?)\s*\[(?P<by>[^@\[\]]+)@(?P<at>[0-9T:-]{19})Z?\]", re.DOTALL)
GRES = re.compile(r"gpu(?::(?P<type>[^:,()]+?))?(?::no_consume)?:(?P<count>\d+)(?:\([^)]*\))?", re.IGNORECASE)
NOTHING = {"", "(null)", "N/A", "n/a", "none", "None", "Unknown", "NONE"}


def condition(text: str) -> str:
    """`IDLE+DRAIN`, `drained*` and `mix-` in one word; up if nothing keeps jobs away."""
    if not STATE.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not the state of a node")
    said = {word.upper() for word in re.findall(r"[A-Za-z_]+", text)} | {SIGNS[sign] for sign in text if sign in SIGNS}
    found = next((name for name, listed in CONDITIONS.items() if not said.isdisjoint(listed)), "up")
    is_busy = not said.isdisjoint(BASES) or not said.isdisjoint(("DRAINING", "DRNG"))
    return "draining" if found == "drained" and is_busy else found


def reason(text: str) -> tuple[str, str, str]:
    """`fan [root@2026-11-18T05:13:10]` as what, by whom and when."""
    found = REASON.fullmatch(text)
    what, by, at = (found["reason"], found["by"], found["at"]) if found else (text, "", "")
    return ("" if what in NOTHING else what), by, at


def gpus(gres: str, resources: str = "") -> tuple[str, str]:
    """How many, and their types, of `gpu:a100:4(S:0-1)`; where that has none, of CfgTRES."""
    found = [(match["type"] or "", int(match["count"])) for match in GRES.finditer(gres)]
    if not found:
        return words.gpus("" if resources in NOTHING else resources)
    return str(sum(count for _, count in found)), ",".join(sorted({kind for kind, count in found if kind and count}))


def number(value: Any) -> float | None:
    """A number of Slurm's JSON: plain, or an object that says whether it is set."""
    if isinstance(value, Mapping):
        is_known = value.get("set", True) and not value.get("infinite", False)
        return number(value.get("number")) if is_known else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def time_text(value: Any) -> str:
    """0 stands for none."""
    seconds = number(value)
    return utc_text(seconds) if seconds and 0 < seconds < 1 << 33 else ""


def whole(value: Any) -> str:
    found = number(value)
    return "" if found is None else f"{found:.0f}"


def json_cluster(path: Path, *keys: str) -> str:
    """Of `meta`, which up to 23.02 stands before the lists and from 23.11 on behind them."""
    meta = next((part.value for part in items(path, *keys) if part.key == "meta"), None)
    slurm = meta.get("slurm") if isinstance(meta, dict) else None
    return str((slurm if isinstance(slurm, dict) else {}).get("cluster") or "")


def listed(value: Any) -> list[str]:
    """A list of words that some versions write as one text."""
    if isinstance(value, str):
        return [word for word in value.split(",") if word]
    return [str(word) for word in value] if isinstance(value, list) else []
