"""Our refresh beside the reference's, at each scale: wall time, CPU time, memory, and how our time grows."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from bench import agreement, sides
from bench.data import Bench, Data
from bench.lines import Line, cpu_ratio
from bench.measure import Cost, interleaved

FASTER_BARS = {0.01: 8.0, 1.0: 3.0}
CPU_BARS = {1.0: 2.0}
MEMORY_BARS = {1.0: 0.143}
EXPONENT_BAR = 1.05
EMPTY = 0.0  # the smallest trace, whose cost is the fixed one


@dataclass(frozen=True)
class Comparison:
    scale: float
    rows: int
    ours: Cost
    reference: Cost


def refresh(bench: Bench) -> Iterator[Line]:
    found = [_compared(bench, scale) for scale in bench.scales]
    for one in found:
        yield from _lines(one)
    if not bench.is_smoke:
        yield from _growth(bench, found[-2], found[-1])


def _compared(bench: Bench, scale: float) -> Comparison:
    data = bench.trace(scale)

    def reference() -> Cost:
        made = sides.reference(data, bench.work)
        days = agreement.check(made.place, bench.work / "ours" / "lake")
        print(f"{scale:.0%}: both sides agree on {days} days", file=sys.stderr)
        return _said(made, scale, "reference")

    ours, theirs = interleaved(_rounds(bench, scale), lambda: _ours(bench, data, scale), reference)
    return Comparison(scale, data.rows, ours, theirs)


def _rounds(bench: Bench, scale: float) -> int:
    if bench.is_smoke:  # it measures again what fell
        return 1
    return 2 if scale == 1 else 3


def _ours(bench: Bench, data: Data, scale: float) -> Cost:
    return _said(sides.ours(data, bench.work), scale, "ours")


def _said(made: sides.Run, scale: float, side: str) -> Cost:
    cost = made.cost
    words = f"{cost.seconds:.2f} s, {cost.cpu_seconds:.2f} s of CPU, {cost.mebibytes:.0f} MiB"
    steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in made.steps.items())
    print(f"{scale:.0%}: {side} {words} ({steps})", file=sys.stderr)
    return cost


def _lines(found: Comparison) -> Iterator[Line]:
    label, ours, theirs = f"{found.scale:.0%}", found.ours, found.reference
    yield Line(f"{label}: reference", theirs.seconds, "s", kind="peer")
    yield Line(f"{label}: ours", ours.seconds, "s")
    faster = FASTER_BARS.get(found.scale)
    yield Line(f"{label}: times faster", theirs.seconds / ours.seconds, "", faster, "at least")
    yield Line(f"{label}: reference, CPU time", theirs.cpu_seconds, "s", kind="peer")
    yield Line(f"{label}: ours, CPU time", ours.cpu_seconds, "s")
    yield cpu_ratio(f"{label}: times less CPU", theirs.cpu_seconds, ours.cpu_seconds, CPU_BARS.get(found.scale))
    yield Line(f"{label}: reference, peak memory", theirs.mebibytes, "MiB", kind="peer")
    yield Line(f"{label}: ours, peak memory", ours.mebibytes, "MiB")
    yield Line(
        f"{label}: memory relative to the reference",
        ours.mebibytes / theirs.mebibytes,
        "",
        MEMORY_BARS.get(found.scale),
    )


def _growth(bench: Bench, first: Comparison, last: Comparison) -> Iterator[Line]:
    """The exponent of our CPU seconds in rows, less what even an empty trace costs."""
    least = bench.trace(EMPTY)
    (fixed,) = interleaved(3, lambda: _ours(bench, least, EMPTY))
    yield Line("ours: fixed cost", fixed.seconds, "s")
    yield Line("ours: fixed cost, CPU time", fixed.cpu_seconds, "s")
    seconds = [max(one.ours.cpu_seconds - fixed.cpu_seconds, 1e-3) for one in (first, last)]
    exponent = math.log(seconds[1] / seconds[0]) / math.log(last.rows / first.rows)
    what = f"ours: exponent of CPU seconds in rows, {first.scale:.0%} to {last.scale:.0%}, less the fixed cost"
    yield Line(what, exponent, "", EXPONENT_BAR)
