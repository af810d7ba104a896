"""Memory of a GPU that fills up in a straight line: a leak, reported before it is full."""

from __future__ import annotations

from functools import partial

from gpulake.detect.memory_growth import MemoryWatch
from gpulake.detect.watches import HOLDER, WATCHES

SAMPLES = """
SELECT
    cluster_id,
    node_id,
    node_id || ' ' || coalesce('GPU ' || gpu_index, gpu_id) AS subject,
    -- What one job leaves and the next one takes is no growth.
    coalesce({holder}, '') AS holder,
    sampled_at,
    covers_seconds,
    memory_used_bytes / nullif(coalesce(memory_total_bytes, types.memory_bytes), 0) AS ratio
FROM silver_gpu_samples
-- The memory of the model, where a sample does not say how much there is; not that of a part of a GPU.
LEFT JOIN silver_gpu_types AS types ON gpu_name = types.gpu_type AND parent_gpu_id IS NULL AND mig_profile IS NULL
WHERE memory_used_bytes IS NOT NULL AND coalesce(memory_total_bytes, types.memory_bytes) IS NOT NULL
"""

WATCHES.register("gpu_memory")(
    partial(
        MemoryWatch,
        tables=("silver_gpu_samples",),
        samples=SAMPLES.format(holder=HOLDER),
        kind="gpu_memory_leak",
        memory="memory",
        remedy="look for tensors that are kept from step to step; save a checkpoint and start again before it is full",
    )
)
