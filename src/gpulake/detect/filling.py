"""What fills up, as one series each: memory of a GPU or of a host, as a share of what there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import numpy as np

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.detectors.saturation import Saturation
from gpulake.detect.series import Floats, Scores
from gpulake.detect.tabled import grouped, series_of
from gpulake.detect.telling import at, flagged, is_over, moment
from gpulake.detect.watches import Read, Watched

METRIC = "memory_used_ratio"
LEAST_RATIO = 0.5  # below it, nobody need be told yet
FULL = Saturation()
LEAST_HELD = 0.9  # of what was used: a leak that ended gave its memory back
FULL_RATIO = 0.97
# Only what ever was half full, and grew, is read; the longer it was watched, the wider are its points.
POINTS = """
WITH samples AS ({samples}),
strange AS (
    SELECT
        cluster_id,
        node_id,
        subject,
        CASE WHEN sum(covers_seconds) < 3600 THEN 2000 WHEN sum(covers_seconds) < 86400 THEN 10000 ELSE 60000 END
            AS step_ms
    FROM samples
    GROUP BY cluster_id, node_id, subject
    HAVING max(ratio) >= {least} AND max(ratio) - min(ratio) >= 0.1
)
SELECT
    samples.cluster_id,
    samples.node_id,
    samples.subject,
    strange.step_ms,
    epoch_ms(samples.sampled_at) // strange.step_ms * strange.step_ms AS at_ms,
    avg(samples.ratio) AS memory_used_ratio
FROM samples
INNER JOIN strange
    ON
        samples.cluster_id = strange.cluster_id
        AND samples.node_id = strange.node_id
        AND samples.subject = strange.subject
GROUP BY ALL
ORDER BY samples.cluster_id, samples.node_id, samples.subject, at_ms
"""


def filling(read: Read, samples: str, subject: str | None) -> Iterator[Watched]:
    """Of rows with cluster_id, node_id, subject, sampled_at, covers_seconds and ratio."""
    rows = read(POINTS.format(samples=samples, least=LEAST_RATIO))
    for (cluster, node, name, step_ms), here in grouped(rows, ["cluster_id", "node_id", "subject", "step_ms"]):
        if subject in (None, name):
            yield Watched(series_of(name, here, [METRIC], int(step_ms)), "ratio", cluster, node)


def told_full(watched: Watched, scores: Scores, alarm: Alarm, kind: str, what: str, remedy: str) -> Finding | None:
    series = watched.series
    places = np.flatnonzero(flagged(series, scores, alarm))
    # The last points of an alarm may be those at which it gave its memory back.
    here = int(places[np.argmax(series.values[places, 0])])
    peak_ms = int(series.times_ms[here])
    used = float(series.values[here, 0])
    recent = slice(max(0, here - FULL.trend_points + 1), here + 1)
    slope = float(np.polyfit(series.times_ms[recent] - series.times_ms[here], series.values[recent, 0], 1)[0])
    after = series.values[here + 1 : here + 1 + FULL.trend_points, 0]
    if used < LEAST_RATIO or slope <= 0 or _is_held(used, after):
        return None
    full = at(peak_ms) + timedelta(milliseconds=(1.0 - used) / slope)
    pace = f"is {used:.0%} full, and will be full at {full:%Y-%m-%d %H:%M} UTC"
    if is_over(series, alarm):
        pace = f"was {used:.0%} full at {moment(peak_ms)}; it would have been full at {full:%Y-%m-%d %H:%M} UTC"
    return Finding(
        kind=kind,
        subject=series.subject,
        headline=f"{what} of {series.subject} {pace}",
        detail=(
            f"it grew in a straight line since before {moment(alarm.begin_ms)}: "
            f"{scores.expected[here, 0]:.0%} was foretold for {moment(peak_ms)}"
        ),
        value=used,
        unit="ratio",
        severity="warning",
        remedy=remedy,
    )


def _is_held(used: float, after: Floats) -> bool:
    """Whether it stopped growing and stayed as it was: what was loaded is there, and nothing leaks."""
    enough = FULL.trend_points // 2
    return (
        len(after) >= enough and float(np.nanmin(after)) >= LEAST_HELD * used and float(np.nanmax(after)) < FULL_RATIO
    )
