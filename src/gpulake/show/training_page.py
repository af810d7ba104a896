"""What befell a training run, as one HTML file: GPU, host, memory and steps over time, the phases shaded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from gpulake.core import words
from gpulake.core.training import Maybe, TrainingGpu, TrainingReport, TrainingStep
from gpulake.show.page import write_page
from gpulake.show.plots import BLUE, GREEN, GREY, GRID, LAYOUT, ORANGE, RED, Figure

MOST_GPUS = 16  # a page with more is not read
MOST_POINTS = 3_000  # of one line: more than a screen has columns
GAP = 5  # usual intervals without a sample
TRACKS = (BLUE, GREY, ORANGE)
COLOURS = {
    "leak": ORANGE,
    "memory_cliff": RED,
    "starved": BLUE,
    "checkpoint_storm": GREEN,
    "cpu_pressure": "#CC79A7",
    "stopped": RED,
    "neighbour": "#56B4E9",
    "small_batch": "#b59a00",
}


def write_training(report: TrainingReport, path: Path) -> None:
    """Writes the file in one step. GPUs with phases come first."""
    shown = sorted(report.gpus, key=lambda gpu: not gpu.phases)[:MOST_GPUS]
    figures = {f"gpu{place}": gpu_figure(gpu, report.steps) for place, gpu in enumerate(shown)}
    seen = f"{words.span(report.seconds)} of {words.count(len(report.gpus), 'GPU')}"
    found = words.count(len(report.phases), "phase") if report.phases else "nothing unusual"
    write_page(
        path,
        "training.html",
        figures,
        "--plot",
        headline=f"{words.opened(found)} in {seen}",
        gpus={f"gpu{place}": gpu for place, gpu in enumerate(shown)},
        more=len(report.gpus) - len(shown),
        report=report,
        colours=COLOURS,
        words=words,
    )


def gpu_figure(gpu: TrainingGpu, steps: Sequence[TrainingStep]) -> Figure:
    """Shares above; the times of the steps below, where there are any."""
    first, last = gpu.times[0], gpu.times[-1]
    own = [step for step in steps if first <= step.ended_at <= last]
    traces = [
        _line(name, *_thinned(gpu.times, values), colour)
        for (name, values), colour in zip(gpu.tracks.items(), TRACKS, strict=True)
        if any(value is not None for value in values)
    ]
    if own:
        # Of steps that fall together the longest is shown: it is what one looks for.
        each = _each(len(own))
        longest = [max(own[at : at + each], key=lambda step: step.seconds) for at in range(0, len(own), each)]
        marks = _line("step time", [_text(step.ended_at) for step in longest], [s.seconds for s in longest], GREEN)
        traces.append({**marks, "mode": "markers", "marker": {"color": GREEN, "size": 3}, "yaxis": "y2"})
    return {"data": traces, "layout": _layout(gpu, has_steps=bool(own))}


def _layout(gpu: TrainingGpu, has_steps: bool) -> Figure:
    shares = {"domain": [0.42, 1] if has_steps else [0, 1], "range": [0, 1.02], "tickformat": ".0%", "gridcolor": GRID}
    took = {"domain": [0, 0.34], "type": "log", "title": {"text": "step, s"}, "gridcolor": GRID, "dtick": 1}
    return {
        "margin": {"l": 60, "r": 20, "t": 55, "b": 40},
        "xaxis": {"type": "date", "range": [_text(gpu.times[0]), _text(gpu.times[-1])], "gridcolor": GRID}
        | ({"anchor": "y2"} if has_steps else {}),
        "yaxis": shares,
        **({"yaxis2": took} if has_steps else {}),
        "legend": {"orientation": "h", "y": -0.15},
        "shapes": [
            {
                "type": "rect",
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "x0": _text(phase.began_at),
                "x1": _text(phase.ended_at),
                "fillcolor": COLOURS.get(phase.kind, GREY),
                "opacity": 0.2,
                "line": {"width": 0},
                "layer": "below",
            }
            for phase in gpu.phases
        ],
        "annotations": [
            {
                "x": _text(phase.began_at + (phase.ended_at - phase.began_at) / 2),
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "text": phase.kind.replace("_", " "),
                "yshift": 14 * (place % 3),  # those that touch would hide each other
                "showarrow": False,
            }
            for place, phase in enumerate(gpu.phases)
        ],
        **LAYOUT,
    }


def _line(name: str, x: list[str], y: list[Maybe], colour: str) -> Figure:
    number = ":.4s" if name == "step time" else ":.1%"
    unit = "s" if name == "step time" else ""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "width": 1.2},
        "hovertemplate": f"%{{x|%H:%M:%S.%L}}<br>{name} %{{y{number}}}{unit}<extra></extra>",
    }


def _each(points: int) -> int:
    """How many become one, where there are too many."""
    return max(1, -(-points // MOST_POINTS))


def _thinned(times: Sequence[datetime], values: Sequence[Maybe]) -> tuple[list[str], list[Maybe]]:
    """The means of neighbours. A line does not go on where nothing was measured."""
    each = _each(len(times))
    seconds = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    usual = timedelta(seconds=median(seconds)) if seconds else timedelta()
    shown: list[str] = []
    found: list[Maybe] = []
    for begin in range(0, len(values), each):
        if begin and times[begin] - times[begin - 1] > GAP * usual:
            shown.append(_text(times[begin - 1]))
            found.append(None)
        known = [value for value in values[begin : begin + each] if value is not None]
        shown.append(_text(times[begin]))
        found.append(fmean(known) if known else None)
    return shown, found


def _text(at: datetime) -> str:
    """As the plots read it: without a zone, which is UTC's."""
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
