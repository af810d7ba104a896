"""Figures by set and method, and over all sets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.scoring import nab
from bench.scoring.alarms import AlarmCounts, count_alarms
from bench.scoring.curves import auc_pr, best_f1, events, vus_pr
from bench.scoring.methods import METHODS, Judgement
from bench.scoring.sets import LabelledSeries
from gpulake.detect.series import Floats

Figures = dict[str, float | None]
FIGURES = {
    "vus_pr": "VUS-PR",
    "auc_pr": "AUC-PR",
    "best_f1": "best F1",
    "nab": "NAB",
    "nab_shipped": "NAB shipped",
    "events_found_ratio": "found",
    "false_alarms_a_day": "false/day",
    "most_false_alarms_a_day": "worst series",
    "median_delay_seconds": "delay s",
}
LEAST_GAIN = 1.25


@dataclass
class Tally:
    """What one method made of the series of one set."""

    vus: list[float] = field(default_factory=list)
    auc: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)
    counts: list[AlarmCounts] = field(default_factory=list)
    worths: list[nab.Worth] = field(default_factory=list)
    scores: list[Floats] = field(default_factory=list)
    intervals_ms: list[int] = field(default_factory=list)
    shipped: float = 0.0

    def add(self, case: LabelledSeries, judged: Judgement) -> None:
        is_labelled = case.is_labelled[case.scored_from :]
        interval = case.series.interval_ms
        self.vus.append(vus_pr(is_labelled, judged.score))
        self.auc.append(auc_pr(is_labelled, judged.score))
        self.f1.append(best_f1(is_labelled, judged.score))
        self.counts.append(count_alarms(is_labelled, judged.is_flagged, interval))
        points = nab.worth(len(is_labelled), *events(is_labelled))
        self.shipped += nab.gained(points, judged.is_flagged, interval)
        self.worths.append(points)
        self.intervals_ms.append(interval)
        self.scores.append(judged.score)

    def figures(self) -> Figures:
        count = sum(each.events for each in self.counts)
        windows = sum(each.windows for each in self.worths)
        days = sum(each.days for each in self.counts)
        delays = [delay for each in self.counts for delay in each.delays_ms]
        return {
            "series": float(len(self.counts)),
            "vus_pr": _mean(self.vus),
            # By every other series: what is ahead on one half only is luck.
            "vus_pr_first_half": _mean(self.vus[::2]),
            "vus_pr_second_half": _mean(self.vus[1::2]),
            "auc_pr": _mean(self.auc),
            "best_f1": _mean(self.f1),
            "nab": nab.at_best(self.worths, self.scores, self.intervals_ms) if windows else None,
            "nab_shipped": nab.normalised(self.shipped, windows) if windows else None,
            "events": float(count),
            "events_found": float(sum(each.found for each in self.counts)),
            "events_found_ratio": sum(each.found for each in self.counts) / count if count else None,
            "false_alarms_a_day": sum(each.false_alarms for each in self.counts) / days if days else None,
            "most_false_alarms_a_day": max(
                (each.false_alarms / each.days for each in self.counts if each.days), default=None
            ),
            "median_delay_seconds": float(np.median(delays)) / 1000 if delays else None,
        }


def measure(cases: Iterable[LabelledSeries]) -> dict[str, dict[str, Figures]]:
    """By set and method, and the mean over sets as set 'overall'."""
    tallies: dict[str, dict[str, Tally]] = {}
    for case in cases:
        methods = tallies.setdefault(case.collection, {method: Tally() for method in METHODS})
        for method, judge in METHODS.items():
            methods[method].add(case, judge(case))
    found = {name: {method: tally.figures() for method, tally in own.items()} for name, own in tallies.items()}
    overall = {method: _over([own[method] for own in found.values()]) for method in METHODS}
    return {**found, "overall": overall}


def bars(found: dict[str, dict[str, Figures]]) -> dict[str, Any]:
    """Whether our default is far enough ahead of the reference's forest, and quiet enough."""
    sets = {name: own for name, own in found.items() if name != "overall"}
    gains = {name: _ratio(own["ours"]["vus_pr"], own["isolation_forest"]["vus_pr"]) for name, own in sets.items()}
    known = [gain for gain in gains.values() if gain is not None]
    mean = _ratio(found["overall"]["ours"]["vus_pr"], found["overall"]["isolation_forest"]["vus_pr"])
    alarms_a_day = [own["ours"]["false_alarms_a_day"] for own in sets.values()]
    most_a_day = [own["ours"]["most_false_alarms_a_day"] for own in sets.values()]
    return {
        "vus_pr_over_forest": gains,
        "vus_pr_over_forest_on_average": mean,
        "is_ahead_on_each": all(gain > 1 for gain in known),
        "is_ahead_on_average": mean is not None and mean >= LEAST_GAIN,
        "is_quiet": all(rate is None or rate <= 1 for rate in alarms_a_day),
        "is_quiet_on_every_series": all(rate is None or rate <= 1 for rate in most_a_day),
    }


def as_text(found: dict[str, dict[str, Figures]]) -> str:
    lines = []
    for name, own in found.items():
        lines.append("  ".join([f"{name:<18}", *(f"{title:>12}" for title in FIGURES.values())]))
        for method, figures in own.items():
            cells = [_cell(figures.get(figure)) for figure in FIGURES]
            lines.append("  ".join([f"  {method:<16}", *(f"{cell:>12}" for cell in cells)]))
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3f}"


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def _over(sets: list[Figures]) -> Figures:
    names = dict.fromkeys(name for figures in sets for name in figures)
    gathered = {name: [value for figures in sets if (value := figures[name]) is not None] for name in names}
    return {name: sum(values) / len(values) if values else None for name, values in gathered.items()}


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None
