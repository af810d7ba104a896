"""failures.parquet: when a share of the hosts was down, and for how long.

OpenDC replays one failure after the other: it waits for `failure_interval` from the end of the last one, takes a share
of the hosts down (which ones, it draws), and brings them back after `failure_duration`. Outages that overlap are
therefore one failure here, whose intensity is the mean share of machines that was down: the machine-time that is lost
stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import pyarrow as pa

from gpulake.replay.exports.opendc_tables import FAILURES
from gpulake.replay.workload import Outage


@dataclass(frozen=True)
class Failure:
    interval_ms: int
    duration_ms: int
    intensity: float  # above 0, at most 1


def failures(outages: Sequence[Outage], machines: int, began_ms: int) -> list[Failure]:
    """From the first submission on. What comes after the last task has no effect."""
    spans = sorted((max(outage.started_ms, began_ms), outage.ended_ms) for outage in outages)
    found = []
    last_end = began_ms
    for start, end, lost_ms in _merged([span for span in spans if span[0] < span[1]]):
        intensity = min(1.0, lost_ms / ((end - start) * max(1, machines)))
        found.append(Failure(start - last_end, end - start, intensity))
        last_end = end
    return found


def failure_batch(rows: Sequence[Failure]) -> pa.RecordBatch:
    columns = zip(*map(astuple, rows), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=FAILURES)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Spans that overlap as one, with the sum of their lengths."""
    merged: list[tuple[int, int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            first, last, lost = merged[-1]
            merged[-1] = (first, max(last, end), lost + end - start)
        else:
            merged.append((start, end, end - start))
    return merged
