"""Where the GPU-hours went."""

from __future__ import annotations

from gpulake.core.ledger import BUCKETS
from gpulake.show.observed import OBSERVED
from gpulake.show.web.questions import Question

MOST_HOURLY_DAYS = 7
NOTES = ("lost", "lost_at_least", "inferred_lost")  # besides the buckets: what was lost, and its bounds
SUMS = ", ".join(f"sum({name}_gpu_hours) AS {name}" for name in (*BUCKETS, *NOTES))
SENSED = "used_gpu_hours + under_used_gpu_hours + idle_gpu_hours"
HELD = f"{SENSED} + lost_gpu_hours + unobserved_gpu_hours"
LOST_AT_MOST = (
    "Lost (failed, timed out, interrupted) is an upper bound; the lower bound is what came after a known checkpoint. "
    "Inferred: based on inferred times."
)


def range_words(least: str, most: str, form: str) -> str:
    """A range in words; one number if both ends read the same."""
    low, high = f"format('{form}', {least})", f"format('{form}', {most})"
    return f"CASE WHEN {low} = {high} THEN {high} ELSE {low} || ' to ' || {high} END"


def only_range(least: str, most: str, form: str) -> str:
    """A range in place of a tile's value; NULL if both ends read the same."""
    return f"nullif({range_words(least, most, form)}, format('{form}', {most}))"


def inferred_words(part: str, whole: str) -> str:
    return f"CASE WHEN {part} > 0 THEN format(', {{:.0f}}% inferred', 100 * {part} / {whole}) ELSE '' END"


# As a share of what sensors measured, from columns named used, sensed, held, unobserved, lost and lost_at_least.
_USED_AT_MOST = "100 * (used + unobserved + lost - lost_at_least) / held"
USED_WORDS = f"""CASE WHEN sensed > 0 THEN
        format('of the {{:.0f}}% of held that sensors measured; ', 100 * sensed / held)
        || {range_words("100 * used / held", _USED_AT_MOST, "{:.0f}%")} || ' of held'
    ELSE 'no sensor measured what was held' END"""
# From columns named held, capacity and unknown_demand: 0 held means nothing where the demand is not known.
_IS_HELD_KNOWN = "(held > 0 OR unknown_demand = 0)"
HELD_RATIO = f"CASE WHEN {_IS_HELD_KNOWN} THEN held / nullif(capacity, 0) END"
HELD_WORDS = f"""CASE WHEN {_IS_HELD_KNOWN} THEN format('{{:,.0f}} GPU-hours, of capacity', held)
    ELSE 'not known how much of capacity' END"""
LOST_WORDS = f"""{range_words("lost_at_least", "lost", "{:,.0f}")} || ' GPU-hours'
    || {inferred_words("inferred_lost", "lost")}"""

QUESTIONS = (
    Question(
        name="observed",
        title="Time under observation",
        sql=f"{OBSERVED} WHERE {{cluster}}",
        order="cluster_id",
        about="Shares of capacity are shares of this time. Basis: settings, events (all of them), or trimmed (without "
        "a few stragglers). Unknown demand: the share of attempts whose request is not known.",
    ),
    Question(
        name="ledger_buckets",
        title="The ledger in numbers",
        sql="""
SELECT
    bucket, gpu_hours, gpu_hours_at_least, gpu_hours_at_most, capacity_ratio, sensed_ratio, inferred_ratio, meaning,
    rests_on, observed_from, observed_until, cluster_id, rank
FROM gold_ledger_buckets WHERE {cluster}
""",
        order="cluster_id, rank",
        about="Over all of the time under observation. At least and at most: a bucket of use may have any part of what "
        "is unobserved; a lost one may have lost only what came after a known checkpoint. Sensed: of what sensors "
        "measured. Inferred: the share that is based on inferred times.",
    ),
    Question(
        name="ledger_by_day",
        title="The ledger by day",
        sql=f"""
SELECT dt AS day, {SUMS}, sum(capacity_gpu_hours) AS capacity
FROM gold_ledger_hourly WHERE {{days}} AND {{cluster}} AND {{gpu_type}} GROUP BY dt
""",
        order="day",
        about="In GPU-hours, within the time under observation. Each GPU-hour of capacity is in one bucket: those of a "
        f"day sum to its capacity. {LOST_AT_MOST}",
    ),
    Question(
        name="ledger",
        title="The ledger over time",
        sql=f"""
WITH chosen AS (
    SELECT ledger.*, ledger.started_at AT TIME ZONE clusters.time_zone AS hour_at
    FROM gold_ledger_hourly AS ledger
    INNER JOIN silver_clusters AS clusters USING (cluster_id)
    WHERE {{days}} AND {{cluster}} AND {{gpu_type}}
),
grain AS (
    SELECT max(dt) - min(dt) < {MOST_HOURLY_DAYS} AS is_hourly FROM chosen
)
SELECT
    CASE WHEN is_hourly THEN hour_at ELSE dt::TIMESTAMP END AS began_at, dt AS day,
    CASE WHEN is_hourly THEN 'hour' ELSE 'day' END AS lasted, {SUMS}, sum(capacity_gpu_hours) AS capacity
FROM chosen
CROSS JOIN grain
GROUP BY ALL
""",
        order="began_at",
        about=(
            "In GPU-hours, by day; by hour where at most 7 days are shown. Times are those of the cluster's time zone. "
            "Each GPU-hour of capacity is in one bucket: together they are the capacity of the time under observation. "
            "Failed, timed out and interrupted are upper bounds of what was lost."
        ),
    ),
)
