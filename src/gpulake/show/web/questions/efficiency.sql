{# What became of the GPU-hours that were held: by user, group, type of GPU and workload, and job by job. #}
{% from "parts.sql" import given, lost_at_most, sensed, sums %}
{% set most_jobs = 1000 %}
{% set notes = ("lost", "lost_at_least", "inferred_lost", "inferred") %}
{% set names = sensed_buckets + notes + lost_buckets + ("unobserved",) %}
{% set columns %}{{ names | join("_gpu_hours, ") }}_gpu_hours{% endset %}
{% set total %}{{ held_buckets | join("_gpu_hours + ") }}_gpu_hours{% endset %}
{% set meaning %}
In GPU-hours. Efficiency: used, of what sensors measured; sensed: measured, of held. Wasted: idle or lost; under-used
--     is not part of it. {{ lost_at_most }}
{%- endset %}
{% set wasted %}idle_gpu_hours + lost_gpu_hours{% endset %}
{% set wastes %}
{{ wasted }} AS wasted_gpu_hours, idle_gpu_hours + lost_at_least_gpu_hours AS wasted_at_least_gpu_hours
{% endset %}
{% set ratios %}
used_gpu_hours / nullif({{ sensed }}, 0) AS efficiency_ratio,
    ({{ sensed }}) / nullif(held_gpu_hours, 0) AS sensed_ratio
{% endset %}
{% set rows %}
gold_job_efficiency_daily
    WHERE {{ whose }} AND (getvariable('workload') IS NULL OR workload = getvariable('workload'))
        [[partition AND job_key IN (SELECT job_key FROM silver_jobs WHERE partition_id = getvariable('partition'))]]
        [[qos AND job_key IN (SELECT job_key FROM silver_jobs WHERE qos_id = getvariable('qos'))]]
        AND {days} AND {cluster} AND {gpu_type}
{% endset %}
{# least() ignores NULL: jobs without a sensor, and lost ones, need the CASE to get no bin. #}
{% set efficiency_bin %}
CASE WHEN sum({{ sensed }}) > 0 THEN
        least(floor({{ bins }} * sum(used_gpu_hours) / sum({{ sensed }}) + 1e-9), {{ bins - 1 }})
    END::INTEGER
{% endset %}
{% set by %}
CASE coalesce(getvariable('by')::VARCHAR, 'wasted')
        WHEN 'wasted' THEN {{ wasted }} WHEN 'held' THEN held_gpu_hours
        {% for bucket in ("lost",) + held_buckets %}WHEN '{{ bucket }}' THEN {{ bucket }}_gpu_hours {% endfor %}
    END
{% endset %}

{% for thing, column, title in (
    ("user", "user_id", "user"), ("group", "group_id", "group"), ("gpu_type", "gpu_type", "type of GPU"),
    ("workload", "workload", "workload"), ("account", "account_id", "account"),
) %}
-- question: efficiency_by_{{ thing }}
-- title: Efficiency by {{ title }}
-- order: held_gpu_hours DESC, {{ column }}
-- options: {{ {"user": "group, account", "group": "user, account", "account": "user, group"}.get(
    thing, "user, group, account"
) }}
-- is_expensive: yes
-- about: {{ meaning }}
{# From the ledger, which counts no GPU-hour twice. Rows without a user were not held. #}
WITH held AS (
    SELECT {{ column }}, {{ sums(names, "_gpu_hours") }}
    FROM gold_ledger_daily
    WHERE user_id IS NOT NULL AND {{ whose }} AND {days} AND {cluster} AND {gpu_type}
    GROUP BY ALL
)
SELECT
    {{ column }}, {{ total }} AS held_gpu_hours, {{ ratios }}, {{ wastes }},
    wasted_gpu_hours / nullif((SELECT sum({{ wasted }}) FROM held), 0) AS share_of_waste_ratio, {{ columns }}
{% if thing == "gpu_type" %}
    , '/efficiency?' || concat_ws('&', 'gpu_type=' || url_encode(gpu_type), {{ given }}) AS link
{% elif thing == "workload" %}
    , '/rows/efficiency_of_jobs?' || concat_ws(
        '&', 'workload=' || url_encode(workload), 'user=' || url_encode(getvariable('user')::VARCHAR),
        'group=' || url_encode(getvariable('group')::VARCHAR),
        'account=' || url_encode(getvariable('account')::VARCHAR), {{ given }}
    ) AS link
{% endif %}
FROM held
WHERE held_gpu_hours > 0

{% endfor %}

{% for thing, title in (("partition", "partition"), ("qos", "quality of service")) %}
-- question: efficiency_by_{{ thing }}
-- title: Efficiency by {{ title }}
-- order: held_gpu_hours DESC, {{ thing }}_id
-- options: account
-- about: {{ meaning }} As jobs claim them: where several claim one GPU at once, they sum to more than the ledger.
WITH held AS (
    SELECT {{ thing }}_id, sum(jobs) AS job_days, {{ sums(names, "_gpu_hours") }}
    FROM gold_account_gpu_usage_daily
    WHERE {{ thing }}_id IS NOT NULL AND (getvariable('account') IS NULL OR account_id = getvariable('account'))
        AND {days} AND {cluster} AND {gpu_type}
    GROUP BY ALL
)
SELECT
    {{ thing }}_id, {{ total }} AS held_gpu_hours, {{ ratios }}, {{ wastes }},
    wasted_gpu_hours / nullif((SELECT sum({{ wasted }}) FROM held), 0) AS share_of_waste_ratio, {{ columns }},
    '/rows/efficiency_of_jobs?' || concat_ws(
        '&', '{{ thing }}=' || url_encode({{ thing }}_id), 'account=' || url_encode(getvariable('account')::VARCHAR),
        {{ given }}
    ) AS link
FROM held
WHERE held_gpu_hours > 0

{% endfor %}

-- question: efficiency_of_jobs
-- title: Efficiency of jobs
-- order: wasted_gpu_hours DESC, cluster_id, job_id
-- options: user, group, account, partition, qos, workload, bin, by
-- is_expensive: yes
-- about: The {{ "{:,}".format(most_jobs) }} jobs that wasted most, or that have most of what By chooses. {{ meaning }}
--     As jobs claim them: where several claim one GPU at once, they sum to more than the ledger, which counts no GPU
--     twice.
WITH top_jobs AS (
    SELECT job_key FROM {{ rows }}
    GROUP BY job_key
    HAVING sum({{ by }}) > 0 AND (getvariable('bin') IS NULL OR {{ efficiency_bin }} = getvariable('bin'))
    ORDER BY sum({{ by }}) DESC, job_key
    LIMIT {{ most_jobs }}
),
held AS (
    SELECT
        any_value(cluster_id) AS cluster_id, any_value(job_id) AS job_id, any_value(user_id) AS user_id,
        any_value(group_id) AS group_id, any_value(workload) AS workload,
        CASE WHEN min(gpu_type) = max(gpu_type) THEN min(gpu_type) ELSE 'several' END AS gpu_type,
        any_value(status) AS status, min(dt) AS first_day, {{ sums(names, "_gpu_hours") }}
    FROM {{ rows }} AND job_key IN (FROM top_jobs)
    GROUP BY job_key
)
SELECT
    job_id, user_id, {{ wastes }}, {{ total }} AS held_gpu_hours, {{ ratios }}, {{ columns }}, status,
    first_day, gpu_type, workload, group_id, cluster_id
FROM held

-- question: job_efficiencies
-- title: How efficient jobs are
-- order: bin NULLS LAST
-- options: user, group, account
-- about: Jobs and what they held, in steps of efficiency: used over what sensors measured. Without a bin: no sensor
--     measured it, or all of it was lost.
WITH jobs AS (
    SELECT {{ efficiency_bin }} AS bin, sum(held_gpu_hours) AS held
    FROM gold_job_efficiency_daily
    WHERE {{ whose }} AND {days} AND {cluster} AND {gpu_type}
    GROUP BY job_key
)
SELECT
    bin, bin / {{ bins }} AS from_ratio, (bin + 1) / {{ bins }} AS to_ratio, count(*) AS jobs,
    sum(held) AS held_gpu_hours
FROM jobs WHERE held > 0 GROUP BY bin

-- question: cost_by_user
-- title: Cost by user
-- order: wasted_cost DESC, user_id
-- about: GPU-hours at the price of their type; unpriced are those of a type without a price. Wasted: idle or lost, at
--     most; under-used is not part of it.
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

-- question: report_card
-- title: The report card
-- order: place
-- options: user, group, account
-- about: As in gpulake report efficiency, on all types of GPU. Used is a share of what sensors measured, all others of
--     what was held.
SELECT * FROM computed

-- question: advice
-- title: What would save most
-- order: place
-- options: user, group, account
-- about: Of a user, a group or an account: everyone's is in gpulake report efficiency. Each computed from jobs that prove it, the
--     largest of them named. No GPU-hour is counted by two of them.
SELECT * FROM computed

-- question: held_by_day
-- title: What became of what was held, by day
-- order: day
-- options: user, group, account
-- about: In GPU-hours; those of a day sum to what was held.
SELECT
    dt AS day, {{ sums(held_buckets + notes) }},
    sum(capacity_gpu_hours) AS held
FROM gold_ledger_daily WHERE user_id IS NOT NULL AND {{ whose }} AND {days} AND {cluster} AND {gpu_type}
GROUP BY dt

-- question: waste_by_cause
-- title: Waste by cause
-- order: wasted_gpu_hours DESC, reason
-- options: user, group, account
-- about: In GPU-hours: idle, or lost by what ended the attempt. At most: not all checkpoints are known. Inferred: the
--     share of all that was lost. What is under-used is no waste.
WITH jobs AS (
    SELECT * FROM gold_job_efficiency_daily WHERE {{ whose }} AND {days} AND {cluster} AND {gpu_type}
),
held AS (
    SELECT
        *, lost_at_least_gpu_hours < lost_gpu_hours AS is_at_most,
        inferred_lost_gpu_hours / nullif(lost_gpu_hours, 0) AS inferred_lost_ratio
    FROM (
        SELECT {{ sums(names, "_gpu_hours") }}
        FROM gold_ledger_daily WHERE {{ whose }} AND {days} AND {cluster} AND {gpu_type}
    )
),
causes AS (
{% for bucket in wasted_buckets %}
    SELECT '{{ bucket }}' AS bucket, '{{ meanings[bucket] }}' AS reason,
        (SELECT count(DISTINCT job_key) FROM jobs WHERE {{ bucket }}_gpu_hours > 0) AS jobs,
        {{ bucket }}_gpu_hours AS wasted_gpu_hours,
        {{ "false" if bucket == "idle" else "is_at_most" }} AS is_at_most,
        {{ "NULL" if bucket == "idle" else "inferred_lost_ratio" }} AS inferred_lost_ratio
    FROM held {{ "UNION ALL" if not loop.last }}
{% endfor %}
)
SELECT
    reason, bucket, jobs, wasted_gpu_hours, is_at_most, inferred_lost_ratio,
    wasted_gpu_hours / sum(wasted_gpu_hours) OVER () AS share_of_waste_ratio,
    '/rows/efficiency_of_jobs?' || concat_ws(
        '&', 'by=' || bucket,
        'user=' || url_encode(getvariable('user')::VARCHAR),
        'group=' || url_encode(getvariable('group')::VARCHAR),
        'account=' || url_encode(getvariable('account')::VARCHAR),
        {{ given }}
    ) AS link
FROM causes WHERE wasted_gpu_hours > 0
