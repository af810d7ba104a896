"""Memory of a host that fills up in a straight line, told before the kernel kills somebody for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulake.core.types import Finding
from gpulake.detect.alarms import Alarm
from gpulake.detect.filling import FULL, filling, told_full
from gpulake.detect.series import Detector, Scores
from gpulake.detect.watches import WATCHES, Read, Watched

SAMPLES = """
SELECT
    cluster_id,
    node_id,
    node_id AS subject,
    sampled_at,
    covers_seconds,
    1 - memory_available_bytes / nullif(memory_total_bytes, 0) AS ratio
FROM silver_host_samples
WHERE memory_available_bytes IS NOT NULL AND memory_total_bytes IS NOT NULL
"""
REMEDY = "find the process that grows (data loaders that keep what they read are usual), and start it again in time"


@WATCHES.register("host_memory")
@dataclass(frozen=True)
class HostMemory:
    tables: tuple[str, ...] = ("silver_host_samples",)
    detector: Detector = FULL

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        return filling(read, SAMPLES, subject)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        return told_full(watched, scores, alarm, "host_memory_leak", "host memory", REMEDY)
