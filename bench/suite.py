"""What is measured, in order, and which bar each figure has to meet."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import agreement, sides
from bench.data import Data, generated, jobs_at
from bench.days import split
from bench.lines import Line
from bench.measure import PROGRAMS, Cost, median, run

FEW_RUNS_FROM = 0.5  # a scale so large that one disturbance more or less hardly shows
START_UP_RUNS = 10
MEMORY_LIMIT = "400MB"


@dataclass(frozen=True)
class Comparison:
    scale: float
    rows: int
    reference: Cost
    ours: Cost


@dataclass
class Suite:
    out: Path
    seed: int
    is_fresh: bool
    comparisons: list[Comparison] = field(default_factory=list)
    fixed_seconds: float = 0.0
    runs: list[dict[str, Any]] = field(default_factory=list)  # every single one, for who wants to look closer
    _rest: list[Line] = field(default_factory=list)
    _data: dict[int, Data] = field(default_factory=dict)

    def compare(self, scales: list[float]) -> None:
        """Both sides in turn, at every scale; then ours on next to nothing, which is its fixed cost."""
        for scale in scales:
            data = self._generated(jobs_at(scale))
            pairs = [self._pair(scale, data) for _ in range(2 if scale >= FEW_RUNS_FROM else 3)]
            reference, ours = (median([pair[side].cost for pair in pairs]) for side in (0, 1))
            self.comparisons.append(Comparison(scale, data.rows, reference, ours))
        if len(scales) > 1:
            least = self._generated(jobs_at(0))
            costs = [self._noted("fixed", 0, sides.ours(least, self.work)).cost for _ in range(3)]
            self.fixed_seconds = median(costs).seconds

    def add(self, lines: Iterable[Line]) -> None:
        self._rest.extend(lines)

    def start_up(self, scale: float) -> None:
        lake = sides.ours(self._generated(jobs_at(scale)), self.work).place
        for words, bar in ((["--help"], 0.3), (["sql", "select 1", "--lake", str(lake)], 0.6)):
            costs = [run([PROGRAMS / "gpulake", *words], self.work) for _ in range(START_UP_RUNS)]
            seconds = statistics.median(cost.seconds for cost in costs)
            self._rest.append(Line(f"gpulake {' '.join(words[:2])}", seconds, "s", bar))

    def whole(self, scale: float) -> None:
        """What only we do."""
        data = self._generated(jobs_at(scale))
        label = f"{scale:.0%}"
        landed = self._noted("landing", scale, sides.landing(data, self.work, MEMORY_LIMIT)).cost
        self._rest.append(Line(f"{label}: landing only, engine limit {MEMORY_LIMIT}", landed.seconds, "s"))
        self._rest.append(Line(f"{label}: landing only, peak memory", landed.mebibytes, "MiB"))
        if data.is_current:
            is_full = scale == 1
            self._rest.append(Line(f"{label}: synth", data.synth.seconds, "s", 180 if is_full else None))
            memory = Line(f"{label}: synth, peak memory", data.synth.mebibytes, "MiB", 2048 if is_full else None)
            self._rest.append(memory)

    def marts(self, scales: list[float]) -> None:
        """The seven marts, ours and in pandas, from the same silver tables; both must come to the same figures."""
        totals: list[tuple[int, float]] = []
        for scale in scales:
            data = self._generated(jobs_at(scale))
            made = self._noted("everything", scale, sides.everything(data, self.work))
            if scale == scales[-1]:
                what = f"{scale:.0%}: all tables of all files"
                self._rest.append(Line(what, made.cost.seconds, "s"))
                memory_bar = 4096 if scale == 1 else None
                self._rest.append(Line(f"{what}, peak memory", made.cost.mebibytes, "MiB", memory_bar))
            found = sides.marts(made.place)
            agreement.check_marts(found["ours"], found["frames"])
            ours, frames = (sum(mart["seconds"] for mart in found[side].values()) for side in ("ours", "frames"))
            totals.append((data.rows, ours))
            label = f"{scale:.0%}: seven marts"
            for name, mart in found["ours"].items() if scale == scales[-1] else ():
                text = f"{scale:.0%}: {name}, ours (pandas {found['frames'][name]['seconds']:.2f} s)"
                self._rest.append(Line(text, mart["seconds"], "s"))
            self._rest.append(Line(f"{label}, pandas", frames, "s"))
            self._rest.append(Line(f"{label}, ours", ours, "s"))
            bar = 8.0 if scale == 1 else None
            self._rest.append(Line(f"{label}, times faster than pandas", frames / ours, "", bar, "at least"))
        if len(totals) > 1:
            (few, short), (many, long) = totals[0], totals[-1]
            exponent = math.log(long / short) / math.log(many / few)
            what = f"seven marts: exponent of seconds in rows, {scales[0]:.0%} to {scales[-1]:.0%}"
            self._rest.append(Line(what, exponent, "", 1.05))

    def one_more_day(self, scale: float) -> None:
        data = self._generated(jobs_at(scale))
        base, day = split(data.trace, self.out / "days" / f"{data.rows}")
        first, added, again = sides.one_more_day(base, day, self.work)
        label = f"{scale:.0%}: one more day"
        self._rest.append(Line(f"{label}, full build without the last day", first.cost.seconds, "s"))
        self._rest.append(Line(f"{label}, increment of the last day", added.cost.seconds, "s"))
        self._rest.append(Line(f"{label}, full build with it", again.cost.seconds, "s"))
        share = added.cost.seconds / again.cost.seconds
        self._rest.append(Line(f"{label}, share of a full build", share, "", 0.15 if scale == 1 else None))

    def lines(self) -> list[Line]:
        compared = [line for comparison in self.comparisons for line in _compared(comparison)]
        return [*compared, *self._growth(), *self._rest]

    @property
    def work(self) -> Path:
        return self.out / "work"

    def _growth(self) -> list[Line]:
        """The exponent of our seconds in rows, as measured and without what even an empty trace costs."""
        if len(self.comparisons) < 2:
            return []
        last = self.comparisons[-1]
        lines = [Line("ours: fixed cost", self.fixed_seconds, "s")]
        # Near the fixed cost little is left to compare, so the larger the smaller scale, the surer the answer.
        for first in self.comparisons[:-1]:
            what = f"ours: exponent of seconds in rows, {first.scale:.0%} to {last.scale:.0%}"
            lines.append(Line(f"{what}, raw", _slope(first, last, 0.0), "", 1.05))
            lines.append(Line(f"{what}, less the fixed cost", _slope(first, last, self.fixed_seconds), "", 1.05))
        return lines

    def _pair(self, scale: float, data: Data) -> tuple[sides.Run, sides.Run]:
        pair = (
            self._noted("reference", scale, sides.reference(data, self.work)),
            self._noted("ours", scale, sides.ours(data, self.work)),
        )
        days = agreement.check(pair[0].place, pair[1].place)
        print(f"{scale:.0%}: both sides agree on {days} days", file=sys.stderr)
        return pair

    def _noted(self, side: str, scale: float, made: sides.Run) -> sides.Run:
        load = os.getloadavg()[0]
        cost = made.cost
        words = (
            f"{cost.seconds:.2f} s ({cost.cpu_seconds:.2f} s of processor), {cost.mebibytes:.0f} MiB, load {load:.1f}"
        )
        print(f"{scale:.0%}: {side} {words}", file=sys.stderr)
        self.runs.append({"side": side, "scale": scale, **asdict(cost), "steps": made.steps, "load": load})
        return made

    def _generated(self, jobs: int) -> Data:
        if jobs not in self._data:
            self._data[jobs] = generated(self.out / "data", jobs, self.seed, self.is_fresh)
        return self._data[jobs]


def _compared(found: Comparison) -> list[Line]:
    label = f"{found.scale:.0%}"
    faster = {0.01: 6.0, 1.0: 2.5}.get(found.scale)
    memory = {1.0: 0.2}.get(found.scale)
    return [
        Line(f"{label}: reference", found.reference.seconds, "s"),
        Line(f"{label}: ours", found.ours.seconds, "s"),
        Line(f"{label}: times faster", found.reference.seconds / found.ours.seconds, "", faster, "at least"),
        Line(f"{label}: reference, peak memory", found.reference.mebibytes, "MiB"),
        Line(f"{label}: ours, peak memory", found.ours.mebibytes, "MiB"),
        Line(
            f"{label}: memory relative to the reference", found.ours.mebibytes / found.reference.mebibytes, "", memory
        ),
    ]


def _slope(first: Comparison, last: Comparison, fixed: float) -> float:
    seconds = max(last.ours.seconds - fixed, 1e-3) / max(first.ours.seconds - fixed, 1e-3)
    return math.log(seconds) / math.log(last.rows / first.rows)
