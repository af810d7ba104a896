"""Why something was found, as one HTML file: its series, the expected band, and the jobs of that time below."""

from __future__ import annotations

import html
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.core import words
from gpulake.core.errors import UsageError
from gpulake.core.explanation import Evidence, Explanation, Ran, RanJob, Track
from gpulake.show.explain_text import JOB_COLUMNS, LEAST_SHARE, NUMBERS, jobs_heading, jobs_rows
from gpulake.show.page import write_page
from gpulake.show.plots import BLUE, GREEN, GREY, GRID, LAYOUT, ORANGE, RED, Figure, band

MOST_TRACKS = 3
MOST_NAME = 26
MARGIN = {"l": 200, "r": 20, "t": 10, "b": 40}  # room for the names of jobs; series and jobs share their time axis
COLOURS = {"succeeded": GREEN, "failed": RED, "running": BLUE, "node_fail": RED, "timeout": ORANGE}


def write_explanation(explanation: Explanation, path: Path) -> None:
    """Writes the file in one step. Without a series there is nothing to draw."""
    evidence = explanation.evidence
    if evidence is None:
        raise UsageError(f"{explanation.explained_id} has no series to draw", explanation.rests_on)
    tracks = [track for track in evidence.tracks if track.share >= LEAST_SHARE] or list(evidence.tracks[:1])
    figures = {f"track{place}": series_figure(evidence, track) for place, track in enumerate(tracks[:MOST_TRACKS])}
    titles = {f"track{place}": track.metric for place, track in enumerate(tracks[:MOST_TRACKS])}
    ran = explanation.ran
    if ran and ran.jobs:
        figures["jobs"] = jobs_figure(ran, evidence)
    write_page(
        path,
        "explain.html",
        figures,
        "--plot",
        explanation=explanation,
        evidence=evidence,
        titles=titles,
        heading=jobs_heading(ran),
        columns=JOB_COLUMNS,
        numbers=NUMBERS,
        rows=jobs_rows(ran),
        words=words,
    )


def series_figure(evidence: Evidence, track: Track) -> Figure:
    times = [_text(at) for at in evidence.times]
    is_ratio = evidence.unit == "ratio"
    known = [place for place, low in enumerate(track.low) if low is not None and track.high[place] is not None]
    shaded = band("expected", *([part[place] for place in known] for part in (times, track.low, track.high)))
    number = ":.1%" if is_ratio else ":.4g"
    seen = {
        "type": "scatter",
        "mode": "lines+markers" if len(times) <= 200 else "lines",
        "name": "seen",
        "x": times,
        "y": list(track.values),
        "line": {"color": BLUE, "width": 1.5},
        "marker": {"size": 4},
        "customdata": [words.quantity(value, evidence.unit) for value in track.expected],
        "hovertemplate": f"%{{x|%a %Y-%m-%d %H:%M}}<br>%{{y{number}}}, %{{customdata}} expected<extra></extra>",
    }
    flagged = [place for place, is_flagged in enumerate(evidence.is_flagged) if is_flagged]
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": "flagged",
        "x": [times[place] for place in flagged],
        "y": [track.values[place] for place in flagged],
        "marker": {"symbol": "diamond", "size": 9, "color": RED},
        "customdata": [evidence.scores[place] for place in flagged],
        "hovertemplate": f"%{{x|%a %Y-%m-%d %H:%M}}<br>%{{y{number}}}, score %{{customdata:.2f}}<extra></extra>",
    }
    title = "" if is_ratio else html.escape(words.label(evidence.unit, 40))
    axis = {"title": {"text": title}, "tickformat": ".0%" if is_ratio else "", "gridcolor": GRID}
    return {
        "data": [*shaded, seen, marks],
        "layout": {**_layout(evidence), "yaxis": axis, "legend": {"orientation": "h", "y": 1.15}},
    }


def jobs_figure(ran: Ran, evidence: Evidence) -> Figure:
    """A bar a job, over the same time as the series; the job with the most GPU-hours on top."""
    jobs = list(ran.jobs)[::-1]
    names = _names(jobs)
    traces = []
    for status in sorted({job.status for job in jobs}):
        own = [(name, job) for name, job in zip(names, jobs, strict=True) if job.status == status]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": html.escape(status),
                "y": [name for name, _ in own],
                "base": [_text(job.began_at) for _, job in own],
                "x": [max(1.0, (job.ended_at - job.began_at) / timedelta(milliseconds=1)) for _, job in own],
                "marker": {"color": COLOURS.get(status, GREY)},
                "text": [_hover(job) for _, job in own],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    axis = {"type": "category", "categoryarray": names, "gridcolor": GRID}
    own_layout = {"yaxis": axis, "barmode": "overlay", "legend": {"orientation": "h", "y": 1.12}, "showlegend": True}
    return {"data": traces, "layout": {**_layout(evidence), **own_layout, "height": 120 + 22 * len(jobs)}}


def _layout(evidence: Evidence) -> dict[str, Any]:
    """The alarm is shaded, and every figure has the same time."""
    step = timedelta(seconds=evidence.interval_seconds)
    ends = [_text(evidence.times[0]), _text(evidence.times[-1] + step)]
    alarm = {"x0": _text(evidence.began_at), "x1": _text(evidence.ended_at + step)}
    shade = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "fillcolor": RED, "opacity": 0.08, "line": {"width": 0}}
    return {
        "margin": MARGIN,
        "xaxis": {"type": "date", "range": ends, "gridcolor": GRID},
        "shapes": [{**shade, **alarm, "layer": "below"}],
        **LAYOUT,
    }


def _names(jobs: list[RanJob]) -> list[str]:
    """Each its own, since a chart would draw two of the same name as one."""
    cut = [html.escape(words.label(job.job_id, MOST_NAME)) for job in jobs]
    return [name if cut.count(name) == 1 else f"{name} #{place}" for place, name in enumerate(cut)]


def _hover(job: RanJob) -> str:
    parts = (
        f"job {words.label(job.job_id, 80)}",
        f"user {words.label(job.user_id, 60)}",
        f"{words.amount(job.gpus)} GPUs, {words.amount(job.gpu_hours)} GPU-hours then",
        f"{job.began_at:%Y-%m-%d %H:%M} to {job.ended_at:%Y-%m-%d %H:%M} UTC, {words.label(job.status, 20)}",
    )
    return "<br>".join(html.escape(part) for part in parts)


def _text(at: datetime) -> str:
    """As the plots read it: without a zone, which is UTC's."""
    return f"{at:%Y-%m-%d %H:%M:%S}"
