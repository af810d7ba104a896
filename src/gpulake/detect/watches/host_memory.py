"""Memory of a host that fills up in a straight line, reported before the kernel kills a process."""

from __future__ import annotations

from functools import partial

from gpulake.detect.memory_growth import MemoryWatch
from gpulake.detect.watches import WATCHES

SAMPLES = """
SELECT
    cluster_id,
    node_id,
    node_id AS subject,
    '' AS holder,
    sampled_at,
    covers_seconds,
    1 - memory_available_bytes / nullif(memory_total_bytes, 0) AS ratio
FROM silver_host_samples
WHERE memory_available_bytes IS NOT NULL AND memory_total_bytes IS NOT NULL
"""

WATCHES.register("host_memory")(
    partial(
        MemoryWatch,
        tables=("silver_host_samples",),
        samples=SAMPLES,
        kind="host_memory_leak",
        memory="host memory",
        remedy="find the process that grows (often a data loader that keeps what it reads), and restart it in time",
    )
)
