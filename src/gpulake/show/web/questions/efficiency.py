"""What became of the GPU-hours that were held: by user, group, type of GPU and workload, and job by job."""

from __future__ import annotations

from gpulake.core.ledger import HELD, LOST
from gpulake.core.ledger import SENSED as SENSED_BUCKETS
from gpulake.show.efficiency_sql import WHOSE
from gpulake.show.web.questions import KEPT, Option, Question
from gpulake.show.web.questions.ledger import LOST_AT_MOST, SENSED

BINS = 20
MOST_JOBS = 1_000
MEANING = (
    "In GPU-hours. Efficiency: used, of what sensors measured; sensed: measured, of held. Wasted: idle or lost; "
    f"under-used is not part of it. {LOST_AT_MOST}"
)
USER = Option("user", "only jobs of this user")
GROUP = Option("group", "only jobs of this group")
WORKLOAD = Option("workload", "only jobs of this workload")
BIN = Option("bin", f"only jobs in this one of {BINS} steps of efficiency, 0 is the lowest", "integer")
BY = Option(
    "by",
    "the jobs with most of these GPU-hours; the default is wasted",
    choices=("wasted", "held", "lost", *HELD),
    usual="wasted",
)
NOTES = ("lost", "lost_at_least", "inferred_lost", "inferred")
COLUMNS = tuple(f"{name}_gpu_hours" for name in (*SENSED_BUCKETS, *NOTES, *LOST, "unobserved"))
SUMS = ", ".join(f"sum({column}) AS {column}" for column in COLUMNS)
TOTAL = " + ".join(f"{bucket}_gpu_hours" for bucket in HELD)
WASTED = "idle_gpu_hours + lost_gpu_hours"
WASTES = f"{WASTED} AS wasted_gpu_hours, idle_gpu_hours + lost_at_least_gpu_hours AS wasted_at_least_gpu_hours"
RATIOS = f"""used_gpu_hours / nullif({SENSED}, 0) AS efficiency_ratio,
    ({SENSED}) / nullif(held_gpu_hours, 0) AS sensed_ratio"""


def _shares(column: str, link: str) -> str:
    """From the ledger, which counts no GPU-hour twice. Rows without a user were not held."""
    return f"""
WITH held AS (
    SELECT {column}, {SUMS}
    FROM gold_ledger_daily
    WHERE user_id IS NOT NULL AND {WHOSE} AND {{days}} AND {{cluster}} AND {{gpu_type}}
    GROUP BY ALL
)
SELECT
    {column}, {TOTAL} AS held_gpu_hours, {RATIOS}, {WASTES},
    wasted_gpu_hours / nullif((SELECT sum({WASTED}) FROM held), 0) AS share_of_waste_ratio, {", ".join(COLUMNS)}{link}
FROM held
WHERE held_gpu_hours > 0
"""


_ROWS = f"""gold_job_efficiency_daily
    WHERE {WHOSE} AND (getvariable('workload') IS NULL OR workload = getvariable('workload'))
        AND {{days}} AND {{cluster}} AND {{gpu_type}}"""
# least() ignores NULL: jobs without a sensor, and lost ones, need the CASE to get no bin.
_BIN = f"""CASE WHEN sum({SENSED}) > 0 THEN
        least(floor({BINS} * sum(used_gpu_hours) / sum({SENSED}) + 1e-9), {BINS - 1})
    END::INTEGER"""
# The top jobs are chosen by numbers only: reading the text columns of all jobs would be slow.
JOBS = f"""
WITH top_jobs AS (
    SELECT job_key FROM {_ROWS}
    GROUP BY job_key
    HAVING sum({{by}}) > 0 AND (getvariable('bin') IS NULL OR {_BIN} = getvariable('bin'))
    ORDER BY sum({{by}}) DESC, job_key
    LIMIT {MOST_JOBS}
),
held AS (
    SELECT
        any_value(cluster_id) AS cluster_id, any_value(job_id) AS job_id, any_value(user_id) AS user_id,
        any_value(group_id) AS group_id, any_value(workload) AS workload,
        CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE 'several' END AS gpu_type,
        any_value(status) AS status, min(dt) AS first_day, {SUMS}
    FROM {_ROWS} AND job_key IN (FROM top_jobs)
    GROUP BY job_key
)
SELECT
    job_id, user_id, {WASTES}, {TOTAL} AS held_gpu_hours, {RATIOS}, {", ".join(COLUMNS)}, status, first_day, gpu_type,
    workload, group_id, cluster_id
FROM held
""".replace(
    "{by}",
    f"""CASE coalesce(getvariable('by')::VARCHAR, 'wasted')
        WHEN 'wasted' THEN {WASTED} WHEN 'held' THEN held_gpu_hours
        {" ".join(f"WHEN '{bucket}' THEN {bucket}_gpu_hours" for bucket in ("lost", *HELD))}
    END""",
)

SPREAD = f"""
WITH jobs AS (
    SELECT {_BIN} AS bin, sum(held_gpu_hours) AS held
    FROM gold_job_efficiency_daily
    WHERE {WHOSE} AND {{days}} AND {{cluster}} AND {{gpu_type}}
    GROUP BY job_key
)
SELECT
    bin, bin / {BINS} AS from_ratio, (bin + 1) / {BINS} AS to_ratio, count(*) AS jobs, sum(held) AS held_gpu_hours
FROM jobs WHERE held > 0 GROUP BY bin
"""

COSTS = """
WITH prices AS (
    SELECT gpu_type, max(capacity_cost / nullif(capacity_gpu_hours, 0)) AS price, any_value(currency) AS currency
    FROM gold_energy_daily GROUP BY gpu_type
),
held AS (
    SELECT
        user_id, gpu_type,
        sum(used_gpu_hours + under_used_gpu_hours + idle_gpu_hours + lost_gpu_hours + unobserved_gpu_hours)
            AS held,
        sum(idle_gpu_hours + lost_gpu_hours) AS wasted, sum(under_used_gpu_hours) AS under_used,
        sum(idle_gpu_hours + lost_at_least_gpu_hours) AS wasted_at_least
    FROM gold_ledger_daily
    WHERE user_id IS NOT NULL AND {days} AND {cluster} AND {gpu_type}
    GROUP BY user_id, gpu_type
)
SELECT
    user_id, sum(held * price) AS held_cost, sum(wasted * price) AS wasted_cost,
    sum(wasted_at_least * price) AS wasted_at_least_cost, sum(under_used * price) AS under_used_cost,
    any_value(currency) AS currency,
    sum(held) AS held_gpu_hours, coalesce(sum(held) FILTER (price IS NULL), 0) AS unpriced_gpu_hours
FROM held
LEFT JOIN prices USING (gpu_type)
GROUP BY user_id
HAVING held_cost IS NOT NULL
"""
_TO_TYPE = f", '/efficiency?' || concat_ws('&', 'gpu_type=' || url_encode(gpu_type), {KEPT}) AS link"
_TO_JOBS = f""", '/rows/efficiency_of_jobs?' || concat_ws(
        '&', 'workload=' || url_encode(workload), 'user=' || url_encode(getvariable('user')::VARCHAR),
        'group=' || url_encode(getvariable('group')::VARCHAR), {KEPT}
    ) AS link"""


def _by(thing: str, column: str, title: str, link: str = "") -> Question:
    options = tuple(option for option in (USER, GROUP) if option.name != thing)
    sql = _shares(column, link)
    order = f"held_gpu_hours DESC, {column}"
    return Question(f"efficiency_by_{thing}", title, sql, order, options, MEANING, is_expensive=True)


QUESTIONS = (
    _by("user", "user_id", "Efficiency by user"),
    _by("group", "group_id", "Efficiency by group"),
    _by("gpu_type", "gpu_type", "Efficiency by type of GPU", _TO_TYPE),
    _by("workload", "workload", "Efficiency by workload", _TO_JOBS),
    Question(
        name="efficiency_of_jobs",
        title="Efficiency of jobs",
        sql=JOBS,
        order="wasted_gpu_hours DESC, cluster_id, job_id",
        options=(USER, GROUP, WORKLOAD, BIN, BY),
        about=f"The {MOST_JOBS:,} jobs that wasted most, or have most of what `by` names. {MEANING} As jobs claim "
        "them: where several claim one GPU at once, they sum to more than the ledger, which counts no GPU twice.",
        is_expensive=True,
    ),
    Question(
        name="job_efficiencies",
        title="How efficient jobs are",
        sql=SPREAD,
        order="bin NULLS LAST",
        options=(USER, GROUP),
        about="Jobs and what they held, in steps of efficiency: used over what sensors measured. Without a bin: "
        "no sensor measured it, or all of it was lost.",
    ),
    Question(
        name="cost_by_user",
        title="Cost by user",
        sql=COSTS,
        order="wasted_cost DESC, user_id",
        about="GPU-hours at the price of their type; unpriced are those of a type without a price. Wasted: idle or "
        "lost, at most; under-used is not part of it.",
    ),
)
