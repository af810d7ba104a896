"""Where the GPU-hours went."""

from __future__ import annotations

from gpulake.show.web.questions import Question

BUCKETS = ("productive", "under_used", "idle", "lost", "unobserved", "unallocated", "down")
_SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in BUCKETS)

QUESTIONS = (
    Question(
        name="ledger_by_day",
        title="The ledger by day",
        sql=f"""
SELECT dt AS day, {_SUMS}, sum(capacity_gpu_hours) AS capacity
FROM gold_ledger_hourly WHERE {{days}} AND {{cluster}} AND {{gpu_type}} GROUP BY dt
""",
        order="day",
        about="In GPU-hours. Each GPU-hour of capacity is in one bucket: those of a day sum to its capacity.",
    ),
)
