"""The phases of a training run as one HTML file: GPU, host, memory and steps over time, the phases shaded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from gpulake.core import words
from gpulake.core.training import Maybe, TrainingGpu, TrainingPhase, TrainingReport, TrainingStep
from gpulake.show.page import write_page
from gpulake.show.plots import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    ORANGE,
    PINK,
    RED,
    SKY,
    Figure,
    figure,
    line,
    moment,
    note,
    shade,
)

MOST_GPUS = 16  # more would make the page too long
MOST_POINTS = 3_000  # of one line, more than a screen has pixels
GAP = 5  # in usual intervals
TRACKS = (BLUE, GREY, ORANGE)
COLOURS = {
    "leak": ORANGE,
    "memory_cliff": RED,
    "starved": BLUE,
    "checkpoint_storm": GREEN,
    "cpu_pressure": PINK,
    "stopped": RED,
    "neighbour": SKY,
    "small_batch": "#b59a00",
}


def write_training(report: TrainingReport, path: Path) -> None:
    """Writes the file in one step. GPUs with phases come first."""
    shown = sorted(report.gpus, key=lambda gpu: not gpu.phases)[:MOST_GPUS]
    figures = {f"gpu{place}": gpu_figure(gpu, report.steps) for place, gpu in enumerate(shown)}
    seen = f"{words.span(report.seconds)} of {words.count(len(report.gpus), 'GPU')}"
    phases = words.count(len(report.phases), "phase") if report.phases else "nothing unusual"
    write_page(
        path,
        "training.html",
        figures,
        "--plot",
        headline=f"{words.opened(phases)} in {seen}",
        gpus={f"gpu{place}": gpu for place, gpu in enumerate(shown)},
        more=len(report.gpus) - len(shown),
        report=report,
        colours=COLOURS,
        words=words,
    )


def gpu_figure(gpu: TrainingGpu, steps: Sequence[TrainingStep]) -> Figure:
    """Shares above; the times of the steps below, where there are any."""
    first, last = gpu.times[0], gpu.times[-1]
    some = [step for step in steps if first <= step.ended_at <= last]
    traces = [
        _line(name, *_thinned(gpu.times, values), colour)
        for (name, values), colour in zip(gpu.tracks.items(), TRACKS, strict=True)
        if any(value is not None for value in values)
    ]
    if some:
        # Of steps that fall together the longest is shown: it is what one looks for.
        each = _each(len(some))
        longest = [max(some[at : at + each], key=lambda step: step.seconds) for at in range(0, len(some), each)]
        points = _line("step time", [moment(step.ended_at) for step in longest], [s.seconds for s in longest], GREEN)
        traces.append({**points, "mode": "markers", "marker": {"color": GREEN, "size": 3}, "yaxis": "y2"})
    time: Figure = {"type": "date", "range": [moment(first), moment(last)]}
    share: Figure = {"range": [0, 1.02], "tickformat": ".0%"}
    layout: dict[str, Any] = {}
    if some:
        time["anchor"], share["domain"] = "y2", [0.42, 1]
        seconds = {"domain": [0, 0.34], "type": "log", "title": {"text": "step, s"}, "gridcolor": GRID, "dtick": 1}
        layout = {"yaxis2": seconds}
    return figure(
        traces,
        time,
        share,
        margin={"l": 60, "r": 20, "t": 55, "b": 40},
        legend={"orientation": "h", "y": -0.15},
        shapes=[shade(one.began_at, one.ended_at, COLOURS.get(one.kind, GREY), 0.2) for one in gpu.phases],
        annotations=[_name(phase, place) for place, phase in enumerate(gpu.phases)],
        **layout,
    )


def _name(phase: TrainingPhase, place: int) -> Figure:
    """Above the plot, in three rows: phases that touch would hide each other's names."""
    middle = moment(phase.began_at + (phase.ended_at - phase.began_at) / 2)
    text = phase.kind.replace("_", " ")
    return note(text, x=middle, y=1, xref="x", yanchor="bottom", yshift=14 * (place % 3))


def _line(name: str, x: list[str], y: list[Maybe], colour: str) -> Figure:
    number, unit = (":.4s", "s") if name == "step time" else (":.1%", "")
    return line(
        name, x, y, colour, 1.2, hovertemplate=f"%{{x|%H:%M:%S.%L}}<br>{name} %{{y{number}}}{unit}<extra></extra>"
    )


def _each(points: int) -> int:
    """How many points become one."""
    return max(1, -(-points // MOST_POINTS))


def _thinned(times: Sequence[datetime], values: Sequence[Maybe]) -> tuple[list[str], list[Maybe]]:
    """Means of neighbouring points. The line is broken where nothing was measured."""
    each = _each(len(times))
    seconds = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    usual = timedelta(seconds=median(seconds)) if seconds else timedelta()
    shown: list[str] = []
    means: list[Maybe] = []
    for begin in range(0, len(values), each):
        if begin and times[begin] - times[begin - 1] > GAP * usual:
            shown.append(moment(times[begin - 1]))
            means.append(None)
        known = [value for value in values[begin : begin + each] if value is not None]
        shown.append(moment(times[begin]))
        means.append(fmean(known) if known else None)
    return shown, means
