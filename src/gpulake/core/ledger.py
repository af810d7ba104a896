"""The buckets of the GPU-hour ledger, in the order in which they are shown. docs/ledger.md defines them."""

from __future__ import annotations

LOST = ("failed", "timed_out", "interrupted")
SENSED = ("used", "under_used", "idle")
HELD = (*SENSED, *LOST, "unobserved")
BUCKETS = (*HELD, "unallocated", "unknown", "down")
# An upper bound: how much of a lost attempt was lost is unknown without a checkpoint. Under-used does not count.
WASTED = ("idle", *LOST)
MEANINGS = {
    "used": "held and used",
    "under_used": "held, used in part",
    "idle": "held, with no work",
    "failed": "held, then failed",
    "timed_out": "held, then out of time",
    "interrupted": "held, then interrupted",
    "unobserved": "held; no sensor saw the use",
    "unallocated": "not held",
    "unknown": "unknown if it was held",
    "down": "down, as recorded or inferred",
}


def bucket_name(bucket: str) -> str:
    """The name for display."""
    return bucket.replace("timed_out", "timed out").replace("_", "-")
