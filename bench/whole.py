"""All of our tables, the seven marts beside pandas, and one more day on top of a lake."""

from __future__ import annotations

from collections.abc import Iterator

from bench import agreement, sides
from bench.data import Bench
from bench.days import split
from bench.lines import Line, cpu_ratio
from bench.measure import Cost

EVERYTHING_BARS = {1.0: (40.0, 1536.0)}  # seconds, MiB
SYNTH_BARS = {1.0: (180.0, 2048.0)}
MARTS_BARS = {1.0: 8.0}
DAY_BARS = {1.0: 0.15}
MEMORY_LIMIT = "400MB"
NONE = (None, None)
ROUNDS = 2


def landing_alone(bench: Bench) -> Iterator[Line]:
    """Under little memory; and what generating the trace costs."""
    scale = bench.scales[-1]
    data = bench.trace(scale)
    what = f"{scale:.0%}: landing only, engine limited to {MEMORY_LIMIT}"
    yield from _cost(what, sides.landing(data, bench.work, MEMORY_LIMIT).cost)
    if data.is_current:
        yield from _cost(f"{scale:.0%}: synth", data.synth, SYNTH_BARS.get(scale, NONE))


def marts(bench: Bench) -> Iterator[Line]:
    """The seven marts, ours and in pandas, from the same silver tables; both must come to the same figures."""
    for scale in bench.scales:
        whole = sides.everything(bench.trace(scale), bench.work)
        rounds = [sides.marts(whole.place) for _ in range(ROUNDS)]
        for found in rounds:
            agreement.check_marts(found["ours"], found["pandas"])
        best = {
            side: {
                mart: {name: min(found[side][mart][name] for found in rounds) for name in ("seconds", "cpu_seconds")}
                for mart in rounds[0][side]
            }
            for side in ("ours", "pandas")
        }
        ours, pandas = best["ours"], best["pandas"]
        what = f"{scale:.0%}: all tables of all files"
        yield from _cost(what, whole.cost, EVERYTHING_BARS.get(scale, NONE))
        if scale == 1:
            for mart, cost in ours.items():
                yield Line(f"{scale:.0%}: {mart}", cost["seconds"], "s")
                yield Line(f"{scale:.0%}: {mart}, pandas", pandas[mart]["seconds"], "s", kind="peer")
        label = f"{scale:.0%}: seven marts"
        seconds, theirs = (sum(mart["seconds"] for mart in side.values()) for side in (ours, pandas))
        yield Line(f"{label}, pandas", theirs, "s", kind="peer")
        yield Line(f"{label}, ours", seconds, "s")
        yield Line(f"{label}, times faster than pandas", theirs / seconds, "", MARTS_BARS.get(scale), "at least")
        seconds, theirs = (sum(mart["cpu_seconds"] for mart in side.values()) for side in (ours, pandas))
        yield Line(f"{label}, pandas, CPU time", theirs, "s", kind="peer")
        yield Line(f"{label}, ours, CPU time", seconds, "s")
        yield cpu_ratio(f"{label}, times less CPU than pandas", theirs, seconds)
        yield cpu_ratio(f"{what}, CPU ratio to the seven marts in pandas", theirs, whole.cost.cpu_seconds)


def day(bench: Bench) -> Iterator[Line]:
    """All but the last day, then an increment of the last day, and a full build of the same files."""
    scale = bench.scales[-1]
    data = bench.trace(scale)
    base, last = split(data.trace, bench.out / "days" / f"{data.rows}")
    added, again = sides.one_more_day(base, last, bench.work)
    label = f"{scale:.0%}: one more day"
    yield Line(f"{label}, increment of the last day", added.seconds, "s")
    yield Line(f"{label}, full build with it", again.seconds, "s")
    yield Line(f"{label}, share of a full build", added.seconds / again.seconds, "", DAY_BARS.get(scale))
    yield Line(f"{label}, increment of the last day, CPU time", added.cpu_seconds, "s")
    yield Line(f"{label}, full build with it, CPU time", again.cpu_seconds, "s")
    yield cpu_ratio(f"{label}, times less CPU than a full build", again.cpu_seconds, added.cpu_seconds)


def _cost(what: str, cost: Cost, bars: tuple[float | None, float | None] = NONE) -> Iterator[Line]:
    most_seconds, most_mebibytes = bars
    yield Line(what, cost.seconds, "s", most_seconds)
    yield Line(f"{what}, CPU time", cost.cpu_seconds, "s")
    yield Line(f"{what}, peak memory", cost.mebibytes, "MiB", most_mebibytes)
