{# How long work waits, and for what. #}
{% set bins_per_decade = 8 %}
{% set long_wait_seconds = 600 %}
{% set size %}
CASE
    WHEN gpus < 0.25 THEN 1 WHEN gpus < 0.5 THEN 2 WHEN gpus < 1 THEN 3 WHEN gpus = 1 THEN 4 WHEN gpus < 8 THEN 5
    WHEN gpus < 64 THEN 6 ELSE 7
END
{% endset %}
{# Tasks that ask for GPUs, with what is asked about them. Days are those of the cluster's time zone: their ends are
   compared as instants, which is faster than a million conversions. Waiting tasks have no launch in some sources, and
   belong to every range. #}
{% macro tasks(only="true") %}
WITH bounds AS (
    SELECT cluster_id, min(started_at) AS begins_at, max(ended_at) AS ends_at FROM silver_days
    WHERE {days} AND {cluster} GROUP BY cluster_id
),
asked AS (
    SELECT
        silver_tasks.* EXCLUDE (gpu_type), coalesce(gpu_type, 'unknown') AS gpu_type,
        round(requested_gpus * coalesce(planned_instances, 1), 3) AS gpus,
        -- A negative wait is a clock error.
        CASE WHEN start_wait_seconds >= 0 THEN start_wait_seconds END AS wait_seconds,
        (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 AS run_seconds,
        CASE
            WHEN status = 'waiting' THEN 'waiting'
            WHEN started_at IS NOT NULL THEN 'started'
            WHEN ended_at IS NOT NULL THEN 'never_started'
            ELSE 'unknown'
        END AS state
    FROM silver_tasks
    INNER JOIN bounds ON silver_tasks.cluster_id = bounds.cluster_id AND (
        status = 'waiting' OR (launched_at >= bounds.begins_at AND launched_at < bounds.ends_at)
    )
    WHERE requested_gpus > 0 AND {{ only }}
    -- Skips most tasks of other days, in any time zone, before the exact comparison.
    [[from AND (status = 'waiting' OR launched_at >= getvariable('from')::DATE - 1)]]
    [[to AND (status = 'waiting' OR launched_at < getvariable('to')::DATE + 2)]]
),
tasks AS (SELECT *, {{ size }} AS size FROM asked WHERE {gpu_type})
{% endmacro %}
{% set quantiles %}quantile_cont(wait_seconds, [0.5, 0.9, 0.95, 0.99]){% endset %}
{% set percentiles %}
quantiles[1] AS p50_wait_seconds, quantiles[2] AS p90_wait_seconds, quantiles[3] AS p95_wait_seconds,
quantiles[4] AS p99_wait_seconds
{% endset %}
{% set counts %}
count(*) FILTER (state != 'waiting') AS tasks, count(wait_seconds) AS waits,
count(*) FILTER (state = 'never_started') AS never_started, count(*) FILTER (state = 'waiting') AS waiting
{% endset %}
{% set wait %}
A wait is from a task's launch (where the source knows none: its submission) to the start of its
--     first instance. Tasks that ask for GPUs, by the day of their launch.
{%- endset %}
{% set columns %}
cluster_id, job_id, task_name, gpu_type, gpus, {{ sizes | list }}[size] AS request_size, launched_at, wait_seconds,
run_seconds, state, status
{% endset %}
{# How many of each GPU type take at most so long, at the edges of bins that are even in logarithms. #}
{% macro distribution(seconds) %}
{{ tasks() }},
-- Many tasks take equally long: logarithms are computed once for each value.
measured AS (SELECT gpu_type, {{ seconds }} AS seconds, count(*) AS tasks FROM tasks GROUP BY ALL),
binned AS (
    -- Rounded, so that a power of ten falls into the bin that it ends.
    SELECT gpu_type, tasks,
        CASE WHEN seconds <= 1 THEN 0 ELSE ceil(round({{ bins_per_decade }} * log10(seconds), 9)) END AS bin
    FROM measured WHERE seconds >= 0
),
counted AS (SELECT gpu_type, bin, sum(tasks)::BIGINT AS tasks FROM binned GROUP BY ALL)
SELECT
    gpu_type, 10 ** (bin / {{ bins_per_decade }}) AS at_most_seconds, tasks,
    (sum(tasks) OVER so_far / sum(tasks) OVER (PARTITION BY gpu_type))::DOUBLE AS tasks_so_far_ratio
FROM counted
WINDOW so_far AS (PARTITION BY gpu_type ORDER BY bin)
{% endmacro %}
{% set demand %}
sum(submitted_tasks)::BIGINT AS submitted_tasks, sum(requested_gpus) AS requested_gpus,
sum(waiting_gpu_hours) AS waiting_gpu_hours, sum(held_gpu_hours) AS held_gpu_hours,
sum(available_gpu_hours) AS available_gpu_hours
{% endset %}
{# Hours of the cluster's time zone. #}
{% set local_demand %}
WITH demand AS (
    SELECT gold_demand_hourly.*, (gold_demand_hourly.started_at AT TIME ZONE silver_clusters.time_zone) AS local_at
    FROM gold_demand_hourly INNER JOIN silver_clusters ON gold_demand_hourly.cluster_id = silver_clusters.cluster_id
    WHERE {days} AND {cluster:gold_demand_hourly.cluster_id} AND {gpu_type}
)
{% endset %}
{% set demanded %}
In GPU-hours. Held: by jobs, used or not. Waiting: requested by tasks between launch and start.
--     Available: capacity that was not down. Hours of the cluster's time zone.
{%- endset %}

-- question: queue_facts
-- title: The queue in numbers
-- order: place
-- about: {{ wait }}
{{ tasks() }},
facts AS (SELECT {{ quantiles }} AS quantiles, max(wait_seconds) AS longest, {{ counts }} FROM tasks),
tiles AS (
    SELECT 1 AS place, 'Median wait' AS label, quantiles[1] AS value, 'wait_seconds' AS unit,
        format('of {:,} tasks that began', waits) AS note, NULL AS level, '/rows/waits?state=started' AS link
    FROM facts
    UNION ALL SELECT 2, '95th percentile', quantiles[3], 'wait_seconds', 'one in twenty waits longer', NULL,
        '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 3, '99th percentile', quantiles[4], 'wait_seconds', 'one in a hundred waits longer', NULL,
        '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 4, 'Longest wait', longest, 'wait_seconds', NULL, NULL, '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 5, 'Tasks launched', tasks, 'count', NULL, NULL, '/rows/waits' FROM facts
    UNION ALL SELECT 6, 'Never started', never_started, 'count',
        format('{:.1f}% of those launched', 100 * never_started / nullif(tasks, 0)),
        CASE WHEN never_started > 0 THEN 'bad' END, '/rows/waits?state=never_started' FROM facts
    UNION ALL SELECT 7, 'Waiting now', waiting, 'count', 'at the end of the data, on any day', NULL,
        '/rows/waits?state=waiting' FROM facts
)
SELECT * FROM tiles WHERE (SELECT tasks + waiting FROM facts) > 0

-- question: waits_by_gpu_type
-- title: Waits by GPU type
-- order: gpu_type
-- about: {{ wait }}
{{ tasks() }}, grouped AS (SELECT gpu_type, {{ quantiles }} AS quantiles, {{ counts }} FROM tasks GROUP BY gpu_type)
SELECT gpu_type, tasks, waits, {{ percentiles }}, never_started, waiting FROM grouped

-- question: waits_by_size
-- title: Waits by request size
-- order: size
-- about: {{ wait }} Size: GPUs asked for, all instances together.
{{ tasks() }}, grouped AS (SELECT size, {{ quantiles }} AS quantiles, {{ counts }} FROM tasks GROUP BY size)
SELECT size, {{ sizes | list }}[size] AS requested_gpus, tasks, waits, {{ percentiles }}, never_started, waiting
FROM grouped

-- question: wait_distribution
-- title: Distribution of waits
-- order: gpu_type, at_most_seconds
-- about: {{ wait }}
{{ distribution("wait_seconds") }}

-- question: run_time_distribution
-- title: Distribution of run times
-- order: gpu_type, at_most_seconds
-- about: From the start of a task's first instance to the task's end, where both are known. By the day of the launch.
{{ distribution("run_seconds") }}

-- question: waits
-- title: Tasks and how long they waited
-- order: wait_seconds DESC NULLS LAST, launched_at, job_id, task_name
-- options: wait_state, size, longer, ran_longer
-- about: {{ wait }} The longest first. {{ wait_states[0] | upper }}{{ wait_states[1:] }}
{{ tasks() }}
SELECT {{ columns }} FROM tasks
WHERE coalesce(state = getvariable('state')::VARCHAR, true) AND coalesce(size = getvariable('size')::BIGINT, true)
    AND coalesce(wait_seconds > getvariable('longer')::DOUBLE, getvariable('longer') IS NULL)
    AND coalesce(run_seconds > getvariable('ran_longer')::DOUBLE, getvariable('ran_longer') IS NULL)

-- question: longest_waits
-- title: Longest waits
-- order: wait_seconds DESC, launched_at, job_id, task_name
-- about: {{ wait }} Waits of more than {{ long_wait_seconds // 60 }} minutes, the longest first.
{# Few tasks wait long: they are filtered first. #}
{{ tasks("start_wait_seconds > " ~ long_wait_seconds) }} SELECT {{ columns }} FROM tasks

{% set reasons %}
Jobs of Slurm, by the day of their submission. Slurm tells a reason only while a job waits: the one that a pull finds
--     counts until the next pull; the rest has the last reason in the accounting, or is unknown. Known: the share that
--     pulls saw. In GPU-hours: the time waited, times the GPUs requested.
{%- endset %}
{% set reason_sums %}
sum(wait_hours) * 3600 AS wait_seconds,
    sum(waiting_gpu_hours) AS waiting_gpu_hours,
    sum(pulled_waiting_gpu_hours) / nullif(sum(waiting_gpu_hours), 0) AS known_ratio
{% endset %}
{% set reason_rows %}
gold_wait_reasons_daily
WHERE {days} AND {cluster}
    [[account AND account_id = getvariable('account')]]
    [[partition AND partition_id = getvariable('partition')]]
    [[qos AND qos_id = getvariable('qos')]]
{% endset %}
-- question: wait_reasons
-- title: Why jobs wait
-- order: waiting_gpu_hours DESC, reason
-- options: account, partition, qos
-- about: {{ reasons }}
SELECT
    reason, sum(jobs)::BIGINT AS jobs, sum(waiting_jobs)::BIGINT AS waiting_jobs, {{ reason_sums }}
FROM {{ reason_rows }} GROUP BY reason

-- question: waits_by_account
-- title: Waits by partition, account and QOS
-- order: waiting_gpu_hours DESC, partition_id, account_id, qos_id
-- options: account, partition, qos
-- about: {{ reasons }} The reason is the one with most GPU-hours.
SELECT
    partition_id, account_id, qos_id, arg_max(reason, waiting_gpu_hours) AS main_reason, {{ reason_sums }}
FROM {{ reason_rows }} GROUP BY partition_id, account_id, qos_id

-- question: demand_over_time
-- title: Demand against capacity
-- order: begin
-- about: {{ demanded }} By the hour up to {{ "{:,}".format(most_hours) }} hours, else by the day.
{{ local_demand }},
span AS (SELECT count(DISTINCT local_at) <= {{ most_hours }} AS is_hourly FROM demand)
SELECT
    strftime(date_trunc(CASE WHEN is_hourly THEN 'hour' ELSE 'day' END, local_at), '%Y-%m-%d %H:%M') AS begin,
    {{ demand }}
FROM demand CROSS JOIN span GROUP BY begin

-- question: demand_by_hour_of_week
-- title: Busiest hours of the week
-- order: weekday, hour
-- about: {{ demanded }} Means over the weeks; demanded: held and waiting, of available. Weekday 1 is Monday.
{{ local_demand }},
hours AS (SELECT isodow(local_at) AS weekday, hour(local_at) AS hour, local_at, {{ demand }} FROM demand GROUP BY ALL)
SELECT
    weekday, hour, count(*) AS hours, avg(submitted_tasks) AS submitted_tasks, avg(held_gpu_hours) AS held_gpu_hours,
    avg(waiting_gpu_hours) AS waiting_gpu_hours, avg(available_gpu_hours) AS available_gpu_hours,
    sum(held_gpu_hours + waiting_gpu_hours) / nullif(sum(available_gpu_hours), 0) AS demanded_ratio
FROM hours GROUP BY weekday, hour

-- question: demand_hours
-- title: Demand by hour and GPU type
-- order: begin, cluster_id, gpu_type
-- options: weekday, hour
-- about: {{ demanded }}
{{ local_demand }}
SELECT
    cluster_id, dt AS day, strftime(local_at, '%Y-%m-%d %H:%M') AS begin, gpu_type, submitted_tasks, requested_gpus,
    waiting_gpu_hours, held_gpu_hours, available_gpu_hours
FROM demand
WHERE coalesce(isodow(local_at) = getvariable('weekday')::BIGINT, true)
    AND coalesce(hour(local_at) = getvariable('hour')::BIGINT, true)
