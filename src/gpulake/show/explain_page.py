"""The explanation of a finding as one HTML file: its series, the expected band, and the jobs of that time."""

from __future__ import annotations

import html
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpulake.core import words
from gpulake.core.errors import UsageError
from gpulake.core.explanation import Evidence, Explanation, Ran, RanJob, Track
from gpulake.show.explain_text import JOB_COLUMNS, LEAST_SHARE, NUMBERS, jobs_heading, jobs_rows
from gpulake.show.page import write_page
from gpulake.show.plots import BLUE, GREEN, GREY, ORANGE, RED, Figure, band, figure, line, marks, moment, shade, spans

MOST_TRACKS = 3
MOST_NAME = 26
MOST_MARKED = 200
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
    times = [moment(at) for at in evidence.times]
    is_ratio = evidence.unit == "ratio"
    known = [place for place, low in enumerate(track.low) if low is not None and track.high[place] is not None]
    shaded = band("expected", *([part[place] for place in known] for part in (times, track.low, track.high)))
    number = ":.1%" if is_ratio else ":.4g"
    hover = f"%{{x|%a %Y-%m-%d %H:%M}}<br>%{{y{number}}}, "
    seen = line(
        "seen",
        times,
        list(track.values),
        BLUE,
        mode="lines+markers" if len(times) <= MOST_MARKED else "lines",
        marker={"size": 4},
        customdata=[words.quantity(value, evidence.unit) for value in track.expected],
        hovertemplate=f"{hover}%{{customdata}} expected<extra></extra>",
    )
    flagged = [place for place, is_flagged in enumerate(evidence.is_flagged) if is_flagged]
    diamonds = marks(
        "flagged",
        [times[place] for place in flagged],
        [track.values[place] for place in flagged],
        {"symbol": "diamond", "size": 9, "color": RED},
        customdata=[evidence.scores[place] for place in flagged],
        hovertemplate=f"{hover}score %{{customdata:.2f}}<extra></extra>",
    )
    title = "" if is_ratio else html.escape(words.label(evidence.unit, 40))
    axis = {"title": {"text": title}, "tickformat": ".0%" if is_ratio else ""}
    return figure(
        [*shaded, seen, diamonds], _time(evidence), axis, legend={"orientation": "h", "y": 1.15}, **_alarm(evidence)
    )


def jobs_figure(ran: Ran, evidence: Evidence) -> Figure:
    """A bar for each job, over the same time as the series; the job with the most GPU-hours on top."""
    jobs = list(ran.jobs)[::-1]
    names = _names(jobs)
    traces = []
    for status in sorted({job.status for job in jobs}):
        some = [(name, job) for name, job in zip(names, jobs, strict=True) if job.status == status]
        times = [(job.began_at, job.ended_at) for _, job in some]
        texts = [_hover(job) for _, job in some]
        traces.append(spans(status, [name for name, _ in some], times, texts, COLOURS.get(status, GREY)))
    return figure(
        traces,
        _time(evidence),
        {"type": "category", "categoryarray": names},
        barmode="overlay",
        height=120 + 22 * len(jobs),
        legend={"orientation": "h", "y": 1.12},
        showlegend=True,
        **_alarm(evidence),
    )


def _time(evidence: Evidence) -> Figure:
    """Every figure has the same time axis."""
    end = evidence.times[-1] + timedelta(seconds=evidence.interval_seconds)
    return {"type": "date", "range": [moment(evidence.times[0]), moment(end)]}


def _alarm(evidence: Evidence) -> dict[str, Any]:
    """The time of the alarm, shaded."""
    end = evidence.ended_at + timedelta(seconds=evidence.interval_seconds)
    return {"margin": MARGIN, "shapes": [shade(evidence.began_at, end, RED, 0.08)]}


def _names(jobs: list[RanJob]) -> list[str]:
    """All different: a chart would draw two bars of the same name as one."""
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
