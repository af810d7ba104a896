"""Memory of a GPU that fills up in a straight line: a leak, told before it is full."""

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
    node_id || ' ' || coalesce('GPU ' || gpu_index, gpu_id) AS subject,
    sampled_at,
    covers_seconds,
    memory_used_bytes / nullif(memory_total_bytes, 0) AS ratio
FROM silver_gpu_samples
WHERE memory_used_bytes IS NOT NULL AND memory_total_bytes IS NOT NULL
"""
REMEDY = "look for tensors that are kept from step to step; save a checkpoint and start again before it is full"


@WATCHES.register("gpu_memory")
@dataclass(frozen=True)
class GpuMemory:
    tables: tuple[str, ...] = ("silver_gpu_samples",)
    detector: Detector = FULL

    def watched(self, read: Read, subject: str | None = None) -> Iterator[Watched]:
        return filling(read, SAMPLES, subject)

    def told(self, watched: Watched, scores: Scores, alarm: Alarm) -> Finding | None:
        return told_full(watched, scores, alarm, "gpu_memory_leak", "memory", REMEDY)
