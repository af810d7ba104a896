"""The machines: what became of each one's hours, which fail more than their peers, and what their GPUs say."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question
from gpulake.show.web.questions.ledger import BUCKETS

MOST_HOURLY_DAYS = 3  # told by the hour; more are told by the day
METRICS = {
    "utilisation": "used_gpu_hours",
    "held": "idle_gpu_hours + under_used_gpu_hours + lost_gpu_hours + unobserved_gpu_hours + used_gpu_hours",
    "idle": "idle_gpu_hours",
    "lost": "lost_gpu_hours",
    "down": "down_gpu_hours",
}
DOWN, UNOBSERVED = -1, -2  # instead of a share
POOL = "(all machines)"  # stands for those of a cluster, where a job's own machine is not known
_SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}_gpu_hours" for bucket in BUCKETS)
_METRIC = (
    "CASE coalesce(getvariable('metric')::VARCHAR, 'utilisation') "
    + " ".join(f"WHEN '{name}' THEN {hours}" for name, hours in METRICS.items())
    + " END"
)
# The hours of a cluster are those of all its machines: one row an hour and GPU type says which there are.
STEPS = f"""
WITH hours AS (
    SELECT DISTINCT
        gold_ledger_hourly.cluster_id, dt, gold_ledger_hourly.started_at,
        gold_ledger_hourly.started_at AT TIME ZONE time_zone AS local_at
    FROM gold_ledger_hourly INNER JOIN silver_clusters ON gold_ledger_hourly.cluster_id = silver_clusters.cluster_id
    WHERE {{days}} AND {{cluster:gold_ledger_hourly.cluster_id}}
),
span AS (SELECT count(DISTINCT dt) <= {MOST_HOURLY_DAYS} AS is_hourly FROM hours),
steps AS (
    SELECT DISTINCT
        cluster_id, CASE WHEN is_hourly THEN epoch(started_at)::BIGINT ELSE epoch(dt)::BIGINT END AS step,
        CASE WHEN is_hourly THEN strftime(local_at, '%Y-%m-%d %H:%M') ELSE strftime(dt, '%Y-%m-%d') END AS begin
    FROM hours CROSS JOIN span
)
"""
METRIC = Option(
    "metric", "what share of capacity is shown; without it: utilisation", choices=tuple(METRICS), usual="utilisation"
)

QUESTIONS = (
    Question(
        name="fleet_facts",
        title="The machines in numbers",
        sql="""
WITH machines AS (
    SELECT count(*) AS machines, coalesce(sum(gpus), 0) AS gpus FROM silver_machines
    WHERE gpus > 0 AND {cluster} AND {gpu_type}
),
ledger AS (
    SELECT
        sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) / sum(capacity_gpu_hours) AS productive,
        1 - sum(down_gpu_hours + unallocated_gpu_hours) / sum(capacity_gpu_hours) AS held,
        sum(lost_gpu_hours) AS lost, sum(down_gpu_hours) AS down
    FROM gold_ledger_hourly WHERE {days} AND {cluster} AND {gpu_type}
),
lemons AS (SELECT count(*) AS lemons FROM gold_lemon_machines WHERE is_lemon AND {cluster} AND {gpu_type})
SELECT place, label, value, unit, note, level, link FROM (
    SELECT 1 AS place, 'Machines with GPUs' AS label, machines AS value, 'count' AS unit, 'in the inventory' AS note,
        NULL AS level, '/rows/machines' AS link FROM machines
    UNION ALL SELECT 2, 'GPUs', gpus, 'count', 'in the inventory', NULL, '/rows/machines' FROM machines
    UNION ALL SELECT 3, 'Utilisation', productive, 'share_ratio', 'productive, of capacity', NULL,
        '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 4, 'Held', held, 'share_ratio', 'by jobs, of capacity', NULL, '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 5, 'Lost', lost, 'count', 'GPU-hours of attempts that failed', NULL, '/rows/machine_ledgers'
    FROM ledger
    UNION ALL SELECT 6, 'Down', down, 'count', 'GPU-hours', NULL, '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 7, 'Lemons', lemons, 'count', 'fail far more than their peers, over all time',
        CASE WHEN lemons > 0 THEN 'bad' ELSE 'good' END, '/rows/lemon_machines' FROM lemons
)
WHERE (SELECT machines FROM machines) > 0 OR (SELECT capacity FROM ledger) > 0
""",
        order="place",
        about="Shares are of all GPU-hours that there were in these days.",
    ),
    Question(
        name="machine_heat",
        title="Every machine by hour or day",
        sql=f"""
{STEPS},
begins AS (SELECT cluster_id, list(begin ORDER BY step) AS begins FROM steps GROUP BY cluster_id),
cells AS (
    SELECT
        cluster_id, machine_key, gpu_type, CASE WHEN is_hourly THEN epoch(started_at)::BIGINT ELSE epoch(dt)::BIGINT END
        AS step, sum(capacity_gpu_hours) AS capacity, sum(down_gpu_hours) AS down,
        sum(unobserved_gpu_hours) AS unobserved, sum({_METRIC}) AS hours
    FROM gold_machine_hours CROSS JOIN span
    WHERE {{days}} AND {{cluster}} AND {{gpu_type}}
    GROUP BY ALL
),
coded AS (
    SELECT *, CASE
        WHEN capacity <= 0 THEN 3000
        WHEN down >= capacity / 2 AND getvariable('metric')::VARCHAR IS DISTINCT FROM 'down' THEN 2000
        WHEN unobserved >= capacity / 2
            AND coalesce(getvariable('metric')::VARCHAR, 'utilisation') IN ('utilisation', 'idle') THEN 3000
        ELSE least(round(1000 * hours / capacity)::BIGINT, 1000)
    END AS code FROM cells
),
-- Time and value in one number: sorting numbers is several times faster than a list in the order of something else.
listed AS (
    SELECT cluster_id, machine_key, gpu_type, list_sort(list(step * 10000 + code)) AS codes FROM coded GROUP BY ALL
)
SELECT
    listed.cluster_id, coalesce(machine_id, '{POOL}') AS machine_id, listed.gpu_type, begins,
    list_transform(codes, one -> CASE one % 10000 WHEN 2000 THEN {DOWN} WHEN 3000 THEN {UNOBSERVED}
        ELSE one % 10000 / 1000 END) AS shares
FROM listed
INNER JOIN begins ON listed.cluster_id = begins.cluster_id
LEFT JOIN silver_machines ON listed.machine_key = silver_machines.machine_key
""",
        order="gpu_type, machine_id, cluster_id",
        options=(METRIC,),
        about=(
            "The metric as a share of the machine's capacity, from each begin to the next, by the cluster's own clock: "
            f"by the hour up to {MOST_HOURLY_DAYS} days, else by the day. {DOWN}: down for half of the time and more. "
            f"{UNOBSERVED}: held, and no sensor says what for, for half of it and more (utilisation and idle alone)."
        ),
    ),
    Question(
        name="machine_ledgers",
        title="The ledger of every machine",
        sql=f"""
WITH sums AS (
    SELECT cluster_id, machine_key, gpu_type, sum(capacity_gpu_hours) AS capacity_gpu_hours, {_SUMS}
    FROM gold_machine_hours WHERE {{days}} AND {{cluster}} AND {{gpu_type}} GROUP BY ALL
)
SELECT
    sums.cluster_id, coalesce(machine_id, '{POOL}') AS machine_id, sums.gpu_type,
    used_gpu_hours / nullif(capacity_gpu_hours, 0) AS productive_ratio,
    sums.* EXCLUDE (cluster_id, machine_key, gpu_type)
FROM sums LEFT JOIN silver_machines ON sums.machine_key = silver_machines.machine_key
""",
        order="productive_ratio, machine_id, cluster_id",
        about="In GPU-hours of the days asked for: the buckets of a machine sum to its capacity. The least used first.",
    ),
    Question(
        name="machines",
        title="The inventory",
        sql="""
SELECT cluster_id, machine_id, gpu_type, gpus, cores, memory_bytes FROM silver_machines WHERE {cluster} AND {gpu_type}
""",
        order="cluster_id, gpu_type, machine_id",
    ),
    Question(
        name="lemon_machines",
        title="Machines by how much more they fail than their peers",
        sql="""
SELECT
    cluster_id, rank, machine_id, gpu_type, jobs, failed_jobs, expected_failed_jobs, excess_deviations, is_lemon,
    lost_gpu_hours, gpu_hours_at_risk
FROM gold_lemon_machines WHERE {cluster} AND {gpu_type}
""",
        order="excess_deviations DESC NULLS LAST, cluster_id, rank",
        about=(
            "Over all time. Expected: what machines of the same type with as many jobs had. At risk: what it would "
            "lose beyond its peers in thirty days like these. Both are empty for a machine that is alone of its type."
        ),
    ),
    Question(
        name="energy_by_day",
        title="Energy by day",
        sql="""
SELECT
    dt AS day, sum(energy_kilowatt_hours) AS energy_kwh, sum(wasted_energy_kilowatt_hours) AS wasted_energy_kwh,
    sum(capacity_gpu_hours) AS capacity_gpu_hours, sum(busy_gpu_hours) AS busy_gpu_hours
FROM gold_energy_daily WHERE {days} AND {cluster} AND {gpu_type}
GROUP BY dt HAVING sum(energy_kilowatt_hours) IS NOT NULL
""",
        order="day",
        about=(
            "kWh of the GPUs, worked out from the watts of their type when idle and when busy. Wasted: drawn by GPUs "
            "that were held and not in use."
        ),
    ),
)
