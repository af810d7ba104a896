"""The explanation of a finding as text. Lines without indentation are headings; all data are sanitised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpulake.core.explanation import Evidence, Explanation, Ran, Track
from gpulake.core.words import amount, cells, count, label, quantity, sentence, span
from gpulake.show.chart_text import LEGEND, MINUTE_SECONDS, chart

MOST_TEXT = 400
MOST_METRICS = 6
LEAST_SHARE = 0.1
MOST_OTHERS = 5
JOB_COLUMNS = ("job", "user", "GPUs", "GPU-hours then", "began (UTC)", "ended (UTC)", "status")
NUMBERS = (False, False, True, True, False, False, False)


def explanation_text(explanation: Explanation, columns: int) -> str:
    parts = [_head(explanation)]
    if explanation.evidence is not None:
        parts += [_chart(explanation.evidence, columns), _peak(explanation.evidence)]
    else:
        parts += [iter([f"No series: {explanation.rests_on}"])]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(explanation: Explanation) -> Iterator[str]:
    finding = explanation.finding
    yield label(finding.get("headline"), MOST_TEXT)
    if finding.get("detail"):
        yield f"  {sentence(label(finding['detail'], MOST_TEXT))}"
    yield f"  id        {explanation.explained_id}, {explanation.severity}, {label(finding.get('kind'), 60)}"
    names = (("cluster", "cluster_id"), ("machine", "node"), ("job", "job_id"))
    about = [f"{word} {label(finding[name], 100)}" for word, name in names if finding.get(name)]
    if about:
        yield f"  about     {', '.join(about)}"
    if finding.get("began_at"):
        yield f"  when      {_when(finding)}"
    elif finding.get("day"):
        yield f"  when      {label(finding['day'], 20)}"
    if finding.get("remedy"):
        yield f"  do        {sentence(label(finding['remedy'], MOST_TEXT))}"
    for other in explanation.others[:MOST_OTHERS]:
        yield f"  also      {label(other, MOST_TEXT)}"
    if len(explanation.others) > MOST_OTHERS:
        yield f"            and {len(explanation.others) - MOST_OTHERS:,} more"


def _when(finding: dict[str, Any]) -> str:
    began, ended = finding["began_at"], finding.get("ended_at")
    if not ended:
        return f"since {began:%Y-%m-%d %H:%M} UTC"
    return f"{began:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC, {span((ended - began).total_seconds())}"


def _chart(evidence: Evidence, columns: int) -> Iterator[str]:
    track = evidence.tracks[0]
    unit = f", in {label(evidence.unit, 20)}" if evidence.unit not in ("", "ratio") else ""
    yield f"{label(track.metric, 60)} of {label(evidence.subject, 60)}{unit}, every {span(evidence.interval_seconds)}"
    yield f"  {LEGEND}"
    for line in chart(evidence, track, columns - 2):
        yield f"  {line}"


def _peak(evidence: Evidence) -> Iterator[str]:
    place = evidence.peak
    seconds = ":%S" if evidence.interval_seconds < MINUTE_SECONDS else ""
    yield f"At its peak, {evidence.times[place]:%Y-%m-%d %H:%M{seconds}} UTC"
    carriers = [track for track in evidence.tracks if track.share >= LEAST_SHARE] or list(evidence.tracks[:1])
    for track in carriers[:MOST_METRICS]:
        yield f"  {label(track.metric, 40)}  {_seen(track, place, evidence.unit)}; {track.share:.0%} of the score"
    if len(carriers) > MOST_METRICS:
        yield f"  and {count(len(carriers) - MOST_METRICS, 'more metric')}"
    if all(_is_within(track, place) for track in carriers):
        yield "  note      each point is within its band: the finding is of what lasts, or of several metrics together"
    threshold = "not set yet" if evidence.threshold is None else f"{evidence.threshold:.2f}"
    yield f"  score     {evidence.scores[place]:.2f} of 1, threshold {threshold}, by detector {evidence.detector}"
    past = f"{count(evidence.history_points, 'point')} before it, since {evidence.history_since:%Y-%m-%d %H:%M}"
    yield f"  history   {past}; {evidence.least_points:,} are needed"


def _is_within(track: Track, place: int) -> bool:
    value, low, high = track.values[place], track.low[place], track.high[place]
    return value is not None and low is not None and high is not None and low <= value <= high


def _seen(track: Track, place: int, unit: str) -> str:
    seen = f"{quantity(track.values[place], unit)} seen"
    low, high, expected = track.low[place], track.high[place], track.expected[place]
    if expected is None:
        return f"{seen}, nothing expected"
    plain = unit if unit == "ratio" else ""
    band = f" ({quantity(low, plain)} to {quantity(high, plain)})" if low is not None and high is not None else ""
    return f"{seen}, {quantity(expected, plain)} expected{band}"


def jobs_heading(ran: Ran | None) -> str:
    if ran is None:
        return "Jobs: the time or the jobs are not known"
    when = f"{ran.since:%Y-%m-%d %H:%M} to {ran.until:%Y-%m-%d %H:%M} UTC"
    if not ran.jobs:
        return f"No job of {label(ran.of, 100)} held GPUs from {when}"
    note = f"; {label(ran.note, 200)}" if ran.note else ""
    return f"Jobs of {label(ran.of, 100)}, {when}, most GPU-hours first{note}"


def jobs_text(ran: Ran | None, columns: int) -> str:
    """A line for each job, or two if one is too narrow."""
    lines = [jobs_heading(ran)]
    rows = jobs_rows(ran)
    widths = [max(map(cells, column)) for column in zip(JOB_COLUMNS, *rows, strict=True)]
    if rows and sum(widths) + 2 * len(widths) <= columns:
        lines += ["  " + "  ".join(map(_padded, row, widths, NUMBERS)).rstrip() for row in (JOB_COLUMNS, *rows)]
    else:
        for job, user, gpus, hours, began, ended, status in rows:
            lines += [f"  {job}, user {user}", f"    {began} to {ended}, {status}; {gpus} GPUs, {hours} GPU-hours then"]
    if ran and ran.more:
        lines.append(f"  and {count(ran.more, 'more job')}")
    return "\n".join(lines) + "\n"


def _padded(text: str, width: int, is_number: bool) -> str:
    blank = " " * (width - cells(text))
    return blank + text if is_number else text + blank


def jobs_rows(ran: Ran | None) -> list[tuple[str, ...]]:
    return [
        (
            label(job.job_id, 60),
            label(job.user_id, 40),
            amount(job.gpus),
            amount(job.gpu_hours),
            f"{job.began_at:%Y-%m-%d %H:%M}",
            "running" if job.status == "running" else f"{job.ended_at:%Y-%m-%d %H:%M}",
            label(job.status, 20),
        )
        for job in (ran.jobs if ran else ())
    ]
