"""One machine, known by its name in an inventory or as a node of telemetry."""

from __future__ import annotations

from gpulake.core.ledger import BUCKETS
from gpulake.show.web.questions import Option, Question
from gpulake.show.web.questions.ledger import HELD, SENSED, USED_WORDS
from gpulake.show.web.questions.machines import MOST_HOURLY_DAYS, POOL

MACHINE = Option("machine", "name of the machine in the inventory, or of the node", is_needed=True)
MOST_POINTS = 300  # of a line over time
# A name may be that of a machine or of a node; a node may be a machine under the first part of its name.
NAMED = f"""
named AS (
    SELECT cluster_id, machine_key FROM silver_machines WHERE machine_id = getvariable('machine') AND {{cluster}}
    UNION SELECT cluster_id, machine_key FROM silver_nodes WHERE node_id = getvariable('machine') AND {{cluster}}
    UNION SELECT cluster_id, machine_key FROM silver_capacity
    WHERE getvariable('machine') = '{POOL}' AND {{cluster}}
        AND machine_key NOT IN (SELECT machine_key FROM silver_machines)
)"""
NODES = f"""{NAMED},
nodes AS (SELECT * FROM silver_nodes WHERE machine_key IN (SELECT machine_key FROM named))"""
_SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in BUCKETS)


def about_machine(name: str, title: str, sql: str, order: str, about: str = "") -> Question:
    return Question(name, title, sql, order, (MACHINE,), about)


QUESTIONS = (
    about_machine(
        "machine_facts",
        "The machine in numbers",
        f"""
WITH {NODES},
ledger AS (
    SELECT
        machine_key, sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) AS used, sum({SENSED}) AS sensed,
        sum(unobserved_gpu_hours) AS unobserved, sum(down_gpu_hours) AS down, sum(unknown_gpu_hours) AS unknown,
        sum({HELD}) AS held, sum(lost_gpu_hours) AS lost, sum(lost_at_least_gpu_hours) AS lost_at_least
    FROM gold_machine_hours WHERE machine_key IN (SELECT machine_key FROM named) AND {{days}} GROUP BY machine_key
),
facts AS (
    SELECT
        named.cluster_id, coalesce(machine.gpu_type, node.gpu_name) AS gpu_type,
        coalesce(machine.gpus, node.gpus) AS gpus,
        coalesce(machine.cores, node.cores) AS cores, coalesce(machine.memory_bytes, node.memory_bytes) AS memory,
        node.cpu_model, capacity, used, sensed, unobserved, down, unknown, held, lost, lost_at_least,
        lemon.rank, lemon.is_lemon, lemon.failed_jobs, lemon.jobs, lemon.expected_failed_jobs
    FROM named
    LEFT JOIN silver_machines AS machine ON named.machine_key = machine.machine_key
    LEFT JOIN (SELECT * FROM nodes QUALIFY row_number() OVER (PARTITION BY machine_key ORDER BY node_id) = 1) AS node
        ON named.machine_key = node.machine_key
    LEFT JOIN ledger ON named.machine_key = ledger.machine_key
    LEFT JOIN gold_lemon_machines AS lemon ON named.machine_key = lemon.machine_key
),
tiles AS (
    SELECT cluster_id, 1 AS place, 'Cluster' AS label, cluster_id AS value, NULL AS note, NULL AS level FROM facts
    UNION ALL SELECT cluster_id, 2, 'GPUs', format('{{}} × {{}}', gpus, coalesce(gpu_type, 'unknown')), NULL, NULL
    FROM facts
    UNION ALL SELECT cluster_id, 3, 'Cores', format('{{:g}}', cores), cpu_model, NULL FROM facts
    UNION ALL SELECT cluster_id, 4, 'Memory', format('{{:.0f}} GiB', memory / 1073741824), NULL, NULL FROM facts
    UNION ALL SELECT cluster_id, 5, 'Used', format('{{:.1f}}%', 100 * used / nullif(sensed, 0)),
        {USED_WORDS}, NULL FROM facts
    UNION ALL SELECT cluster_id, 6, 'Held', format('{{:.1f}}%', 100 * held / nullif(capacity, 0)),
        format('by jobs, of {{:,.0f}} GPU-hours in the time under observation', capacity), NULL FROM facts
    UNION ALL SELECT cluster_id, 7, 'Down', format('{{:,.1f}} GPU-h', down),
        format('of {{:,.0f}}', capacity), CASE WHEN down > 0 THEN 'bad' END FROM facts
    UNION ALL SELECT cluster_id, 8, 'Unknown', format('{{:,.1f}} GPU-h', unknown),
        'not known whether they were held', NULL FROM facts WHERE unknown > 0
    UNION ALL SELECT cluster_id, 9, 'Lemon rank', format('{{}}', rank),
        coalesce(
            format(
                '{{}} of {{}} jobs failed, {{:.1f}} expected; over all time', failed_jobs, jobs, expected_failed_jobs
            ),
            format('{{}} of {{}} jobs failed; no machine of its type to compare with', failed_jobs, jobs)
        ),
        CASE WHEN is_lemon THEN 'bad' END FROM facts
)
SELECT * EXCLUDE (cluster_id), cluster_id FROM tiles WHERE value IS NOT NULL
""",
        "cluster_id, place",
        "Of its GPU-hours in these days, within the time under observation.",
    ),
    about_machine(
        "machine_ledger",
        "What became of its GPU-hours",
        f"""
WITH {NAMED},
hours AS (
    SELECT gold_machine_hours.*, gold_machine_hours.started_at AT TIME ZONE time_zone AS local_at
    FROM gold_machine_hours INNER JOIN silver_clusters ON gold_machine_hours.cluster_id = silver_clusters.cluster_id
    WHERE machine_key IN (SELECT machine_key FROM named) AND {{days}}
),
span AS (SELECT count(DISTINCT dt) <= {MOST_HOURLY_DAYS} AS is_hourly FROM hours)
SELECT
    CASE WHEN is_hourly THEN strftime(local_at, '%Y-%m-%d %H:%M') ELSE strftime(dt, '%Y-%m-%d') END AS begin, {_SUMS},
    sum(capacity_gpu_hours) AS capacity
FROM hours CROSS JOIN span
GROUP BY begin
""",
        "begin",
        "In GPU-hours, in the cluster's time zone, by the hour up to three days, else by the day.",
    ),
    about_machine(
        "machine_use",
        "GPUs and CPU in use",
        f"""
WITH {NAMED},
stretches AS (
    SELECT epoch(started_at) AS begin_second, epoch(ended_at) AS end_second, busy_gpus, cpu_util_ratio
    FROM silver_machine_stretches WHERE machine_key IN (SELECT machine_key FROM named) AND {{days}}
),
span AS (
    SELECT min(begin_second) AS first, greatest(3600, (max(end_second) - min(begin_second)) / {MOST_POINTS}) AS width,
        max(end_second) AS last FROM stretches
),
slots AS (SELECT first + number * width AS begin_second, width FROM span, range(0, {MOST_POINTS}) AS numbers (number)
    WHERE first + number * width < last),
parts AS (
    SELECT slots.begin_second, busy_gpus, cpu_util_ratio,
        least(end_second, slots.begin_second + width) - greatest(stretches.begin_second, slots.begin_second) AS seconds
    FROM stretches INNER JOIN slots
        ON stretches.begin_second < slots.begin_second + width AND stretches.end_second > slots.begin_second
)
SELECT
    to_timestamp(begin_second) AS began_at, sum(busy_gpus * seconds) / sum(seconds) AS busy_gpus,
    sum(cpu_util_ratio * seconds) / sum(seconds) FILTER (cpu_util_ratio IS NOT NULL) AS cpu_util_ratio,
    sum(seconds) AS observed_seconds
FROM parts GROUP BY begin_second
""",
        "began_at",
        f"Means over at most {MOST_POINTS} equal spans of time, of what was observed; times are UTC.",
    ),
    about_machine(
        "machine_gpus",
        "Its GPUs over time",
        f"""
WITH {NODES},
samples AS (
    SELECT
        silver_gpu_samples.*, silver_gpu_samples.sampled_at AT TIME ZONE nodes.time_zone AS local_at,
        epoch(sampled_at) AS second
    FROM silver_gpu_samples INNER JOIN nodes ON silver_gpu_samples.node_id = nodes.node_id
),
chosen AS (SELECT * FROM samples WHERE {{days:local_at}}),
span AS (SELECT min(second) AS first, greatest(1, (max(second) - min(second)) / {MOST_POINTS}) AS width FROM chosen)
SELECT
    gpu_index, gpu_id,
    to_timestamp(first + width * least(floor((second - first) / width), {MOST_POINTS - 1})) AS began_at,
    avg(busy_ratio) AS busy_ratio, avg(memory_used_bytes) AS memory_used_bytes,
    avg(temperature_celsius) AS temperature_celsius, avg(power_watts) AS power_watts, count(*) AS samples
FROM chosen CROSS JOIN span GROUP BY ALL
""",
        "gpu_index, gpu_id, began_at",
        f"Means of the samples in at most {MOST_POINTS} equal spans of time; times are UTC.",
    ),
)
