"""The smoke run: ratios of CPU times against those that are committed, which a busy machine hardly changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from bench.data import Bench
from bench.lines import Line, figure

Part = Callable[[Bench], Iterable[Line]]
FALL = 0.2
HINT = "if that is meant: scripts/bench --smoke --record"


def fallen(committed: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, str]:
    """By line, why it fails: a ratio that fell by more than a fifth, or one that is missing on either side."""
    failed = {what: "not measured any more" for what in committed if what not in measured}
    for what, ratio in measured.items():
        if what not in committed:
            failed[what] = "not in the committed table"
        elif ratio < (1 - FALL) * committed[what]:
            failed[what] = f"{figure(committed[what])} -> {figure(ratio)}"
    return failed


def measure(bench: Bench, parts: Mapping[str, Part], committed: Mapping[str, float]) -> list[Line]:
    """The ratios of all parts; a part with a ratio that fell is measured again, and the better of the two counts."""
    found: dict[str, Line] = {}
    for name, part in parts.items():
        lines = _ratios(bench, name, part)
        fell = fallen(committed, {what: line.value for what, line in lines.items()})
        if any(what in committed for what in fell if what in lines):
            print(f"{name}: measured again, since a ratio fell", file=sys.stderr)
            for what, line in _ratios(bench, name, part).items():
                lines[what] = max(lines[what], line, key=lambda each: each.value)
        found |= lines
    return list(found.values())


def _ratios(bench: Bench, name: str, part: Part) -> dict[str, Line]:
    print(f"{name} …", file=sys.stderr)
    return {line.what: line for line in part(bench) if line.kind == "CPU ratio"}
