{# Metrics of the lake: each is a query whose columns are its labels and, last, its value. #}
{# The first and the newest day count only once they have all of their hours. #}
{% set days %}
WITH hours AS (
    SELECT cluster_id, dt, count(DISTINCT started_at) AS hours, min(started_at) AS began_at
    FROM gold_ledger_hourly GROUP BY ALL
), whole AS (
    SELECT *, dt > min(dt) OVER (PARTITION BY cluster_id) AND dt < max(dt) OVER (PARTITION BY cluster_id) AS is_inner
    FROM hours
), last_day AS (
    SELECT cluster_id, max(dt) AS dt, max(began_at) AS began_at
    FROM whole WHERE is_inner OR hours >= 24 GROUP BY cluster_id
), last_hour AS (
    SELECT cluster_id, max(started_at) AS started_at FROM gold_ledger_hourly GROUP BY cluster_id
)
{% endset %}
{% set labels %}l.cluster_id AS cluster, coalesce(l.gpu_type, '') AS gpu_type{% endset %}
{% set of_day %}FROM gold_ledger_hourly AS l JOIN last_day USING (cluster_id, dt){% endset %}
{% set of_hour %}FROM gold_ledger_hourly AS l JOIN last_hour USING (cluster_id, started_at){% endset %}
{# Rounded: sums of fractions are a little off. #}
{% macro seconds(hours) %}round(3600 * sum({{ hours }}), 6){% endmacro %}
{# GPU-seconds by bucket, from the sums of hours. #}
{% macro by_bucket(of) %}
{{ days }}
SELECT cluster, gpu_type, bucket, value FROM (
    UNPIVOT (
        SELECT {{ labels }}
        {% for bucket in buckets %}, {{ seconds(bucket ~ "_gpu_hours") }} AS {{ bucket }}{% endfor +%}
        {{ of }} GROUP BY ALL
    ) ON {{ buckets | join(", ") }} INTO NAME bucket VALUE value
)
{% endmacro %}
{% macro total(hours, of) %}
{{ days }}
SELECT {{ labels }}, {{ seconds(hours) }} AS value {{ of }} GROUP BY ALL
{% endmacro %}
{% macro daily(table, column, at="=") %}
{{ days }}
SELECT t.cluster_id AS cluster, arg_max(t.{{ column }}, t.dt) AS value
FROM {{ table }} AS t JOIN last_day AS d ON t.cluster_id = d.cluster_id AND t.dt {{ at }} d.dt GROUP BY ALL
{% endmacro %}

-- gauge: gpulake_lake_build_timestamp_seconds
-- help: When the build in use was made, seconds of the epoch.
SELECT epoch(built_at) AS value
FROM build_info

-- gauge: gpulake_lake_newest_data_timestamp_seconds
-- help: End of the newest hour of which the lake knows, seconds of the epoch.
{{ days }}
SELECT cluster_id AS cluster, epoch(started_at) + 3600 AS value
FROM last_hour

-- gauge: gpulake_lake_day_timestamp_seconds
-- help: Begin of the last complete day, which the metrics named day are of, seconds of the epoch.
{{ days }}
SELECT cluster_id AS cluster, epoch(began_at) AS value
FROM last_day

-- gauge: gpulake_lake_day_capacity_gpu_seconds
-- help: What all GPUs could have given on the last complete day.
{{ total("capacity_gpu_hours", of_day) }}

-- gauge: gpulake_lake_day_gpu_seconds
-- help: Where the GPU time of the last complete day went; the buckets sum to its capacity. Lost ones are at most.
{{ by_bucket(of_day) }}

-- gauge: gpulake_lake_day_held_gpu_seconds
-- help: GPU time that jobs held on the last complete day.
{{ total((held_buckets | join("_gpu_hours + ")) ~ "_gpu_hours", of_day) }}

-- gauge: gpulake_lake_hour_capacity_gpu_seconds
-- help: What all GPUs could have given in the newest hour.
{{ total("capacity_gpu_hours", of_hour) }}

-- gauge: gpulake_lake_hour_gpu_seconds
-- help: Where the GPU time of the newest hour went; the buckets sum to its capacity. Lost ones are at most.
{{ by_bucket(of_hour) }}

-- gauge: gpulake_lake_day_gpu_utilisation_ratio
-- help: Busy of observed GPU time, 0 to 1, on the newest complete day that was observed.
{{ daily("gold_cluster_util_daily", "gpu_util_ratio", "<=") }}

-- gauge: gpulake_lake_day_coverage_ratio
-- help: Observed GPU time of capacity, 0 to 1, on the newest complete day that was observed.
{{ daily("gold_cluster_util_daily", "coverage_ratio", "<=") }}

-- gauge: gpulake_lake_day_ended_jobs
-- help: Jobs that ended on the last complete day.
{{ daily("gold_jobs_daily", "ended_jobs") }}

-- gauge: gpulake_lake_day_failed_jobs
-- help: Jobs that failed on the last complete day.
{{ daily("gold_jobs_daily", "failed_jobs") }}

-- gauge: gpulake_lake_queue_wait_seconds
-- help: From submission to start, of all tasks that started.
-- kind: summary
SELECT cluster_id AS cluster, coalesce(gpu_type, '') AS gpu_type, request_size,
    [
    {% for level in (50, 75, 90, 95, 99) %}
        {'quantile': '{{ level / 100 }}', 'value': p{{ level }}_start_wait_seconds}{{ "," if not loop.last }}
    {% endfor %}
    ] AS quantiles,
    start_wait_tasks AS count, coalesce(mean_start_wait_seconds, 0) * start_wait_tasks AS sum
FROM gold_queue_waits

-- gauge: gpulake_lake_open_incidents
-- help: Incidents that are not resolved.
SELECT coalesce(cluster_id, '') AS cluster, kind, severity, state, count(*) AS value
FROM incidents WHERE state <> 'resolved' GROUP BY ALL

-- gauge: gpulake_lake_findings
-- help: What detectors found abnormal in the build in use.
SELECT coalesce(cluster_id, '') AS cluster, kind, coalesce(severity, '') AS severity, count(*) AS value
FROM findings GROUP BY ALL

-- gauge: gpulake_lake_quarantined_rows
-- help: Rows that did not parse and were set aside.
SELECT table_name AS "table", count(*) AS value
FROM quarantine GROUP BY ALL

-- gauge: gpulake_lake_tests
-- help: Data tests of the last build by what came of them.
SELECT severity, status, count(*) AS value
FROM test_results GROUP BY ALL

-- gauge: gpulake_lake_last_step_timestamp_seconds
-- help: When a step of the flow last began, by what came of it, seconds of the epoch.
SELECT step, status, max(epoch(started_at)) AS value
FROM runs GROUP BY ALL
