{# Measures over time, who has most of them, and what to do first. #}
{% from "parts.sql" import dated, held %}
{% set band_days = 28 %}
{% set least_band_days = 7 %}
{% set most_names = 8 %}
{% set wasted %}idle_gpu_hours + lost_gpu_hours{% endset %}
{% set by %}
CASE coalesce(getvariable('by')::VARCHAR, 'wasted')
        WHEN 'wasted' THEN {{ wasted }} WHEN 'held' THEN {{ held }}
        {% for bucket in ("lost",) + held_buckets %}WHEN '{{ bucket }}' THEN {{ bucket }}_gpu_hours {% endfor %}
    END
{% endset %}
{% set of_holder %}
true [[user AND user_id = getvariable('user')]] [[group AND group_id = getvariable('group')]]
        [[account AND account_id = getvariable('account')]] [[workload AND workload = getvariable('workload')]]
{% endset %}
{# Tables without holders say nothing of one. #}
{% set of_all %}[[user AND false]] [[group AND false]] [[account AND false]] [[workload AND false]]{% endset %}
{# Days from the first shown one to the same one of the period before; NULL if there is no such period. #}
{% set shift %}(getvariable('to')::DATE - getvariable('from')::DATE + 1)::INTEGER{% endset %}
{% set before %}
dt >= getvariable('from')::DATE - {{ shift }} AND dt < getvariable('from')::DATE
{% endset %}
{% set days_seen %}
SELECT dt, bool_or(observed_seconds < epoch(ended_at) - epoch(started_at) - 1) AS is_partial
FROM silver_days WHERE {cluster} GROUP BY dt
{% endset %}
{% set amount_about %}
In GPU-hours of the ledger, which counts none twice. Wasted: idle or lost; lost is an upper bound.
{%- endset %}

-- question: measures
-- title: Measures by day
-- order: place, day
-- options: user, group, account, workload
-- about: By day of the cluster's time zone. Expected: between the tenth and the ninetieth percentile of the
--     {{ band_days }} days before, if {{ least_band_days }} of them are whole. Partial: not all of the day was under
--     observation. Compared: as many days before, if the first and the last day are given. Lost is an upper bound. Of a
--     user, a group, an account or a workload only what the ledger says.
WITH ledger AS (
    SELECT
        dt, sum(capacity_gpu_hours) AS capacity,
        {% for name, value in (
            ("held", held), ("used", "used_gpu_hours"), ("idle", "idle_gpu_hours"),
            ("under_used", "under_used_gpu_hours"), ("lost", "lost_gpu_hours")
        ) %}
        coalesce(sum({{ value }}) FILTER (WHERE {{ of_holder }}), 0) AS {{ name }}{{ "," if not loop.last }}
        {% endfor %}
    FROM gold_ledger_daily WHERE {cluster} AND {gpu_type} GROUP BY dt
),
ended AS (
    SELECT dt, sum(failed_jobs)::DOUBLE AS failed
    FROM gold_jobs_daily WHERE {cluster} [[gpu_type AND false]] {{ of_all }} GROUP BY dt
),
demand AS (
    SELECT dt, sum(waiting_gpu_hours) AS waiting
    FROM gold_demand_hourly WHERE {cluster} AND {gpu_type} {{ of_all }} GROUP BY dt
),
power AS (
    SELECT dt, sum(energy_kilowatt_hours) AS energy, sum(held_cost) AS cost,
        coalesce(any_value(currency), '') AS currency
    FROM gold_energy_daily WHERE {cluster} AND {gpu_type} {{ of_all }} GROUP BY dt
),
seen AS (
    SELECT began::DATE AS dt, count(*)::DOUBLE AS incidents,
        string_agg(DISTINCT reason, ', ' ORDER BY reason) AS words
    FROM ({{ dated }}) WHERE {cluster} [[gpu_type AND false]] {{ of_all }} GROUP BY ALL
),
days AS ({{ days_seen }}),
amounts AS (
    {% for place, name, unit, table in (
        (1, "capacity", "gpu_hours", "ledger"), (2, "held", "gpu_hours", "ledger"), (3, "used", "gpu_hours", "ledger"),
        (4, "under_used", "gpu_hours", "ledger"), (5, "idle", "gpu_hours", "ledger"),
        (6, "lost", "gpu_hours", "ledger"), (7, "failed", "jobs", "ended"), (8, "waiting", "gpu_hours", "demand"),
        (9, "energy", "kwh", "power"), (10, "cost", "", "power"), (11, "incidents", "incidents", "seen")
    ) %}
    SELECT {{ place }} AS place, '{{ name }}' AS measure, {{ "'" ~ unit ~ "'" if unit else "currency" }} AS unit, dt, {{ name }} AS value,
        {{ "words" if table == "seen" else "NULL" }} AS words
    FROM {{ table }} WHERE {{ name }} IS NOT NULL
    {{ "UNION ALL" if not loop.last }}
    {% endfor %}
),
whole AS (
    SELECT amounts.*, coalesce(is_partial, false) AS is_partial,
        CASE WHEN NOT coalesce(is_partial, false) THEN value END AS whole_value
    FROM amounts LEFT JOIN days USING (dt)
),
expected AS (
    SELECT *, count(whole_value) OVER earlier AS earlier_days, quantile_cont(whole_value, 0.1) OVER earlier AS low,
        quantile_cont(whole_value, 0.9) OVER earlier AS high
    FROM whole
    WINDOW earlier AS (
        PARTITION BY measure ORDER BY dt RANGE BETWEEN INTERVAL {{ band_days }} DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
)
SELECT
    now.place, now.measure, now.unit, now.dt AS day, now.value,
    CASE WHEN now.earlier_days >= {{ least_band_days }} THEN now.low END AS expected_low,
    CASE WHEN now.earlier_days >= {{ least_band_days }} THEN now.high END AS expected_high,
    now.is_partial, before.value AS compared_value, before.dt AS compared_day, now.words
FROM expected AS now
LEFT JOIN whole AS before ON now.measure = before.measure AND before.dt = now.dt - {{ shift }}
WHERE {days:now.dt}

{# A name of every dimension: of the ledger by holder, or of machines. #}
{% set named %}
SELECT dt,
    CASE coalesce(getvariable('dimension')::VARCHAR, 'user')
        WHEN 'user' THEN user_id WHEN 'group' THEN group_id WHEN 'account' THEN account_id
        WHEN 'gpu_type' THEN gpu_type WHEN 'workload' THEN workload
    END AS name, {{ by }} AS amount
FROM gold_ledger_daily
WHERE coalesce(getvariable('dimension')::VARCHAR, 'user') != 'machine' AND user_id IS NOT NULL
    AND {cluster} AND {gpu_type} AND {{ of_holder }}
UNION ALL
SELECT hours.dt, machines.machine_id, {{ by }}
FROM gold_machine_hours AS hours JOIN silver_machines AS machines USING (machine_key)
WHERE getvariable('dimension') = 'machine' AND {cluster:hours.cluster_id} AND {gpu_type:hours.gpu_type} {{ of_all }}
{% endset %}

-- question: leaders
-- title: Who has most
-- order: amount_gpu_hours DESC, name
-- options: dimension, by, user, group, account, workload
-- is_expensive: yes
-- about: {{ amount_about }} Compared: as many days before, if the first and the last day are given. Machines of a
--     holder are not known.
WITH named AS ({{ named }}),
summed AS (
    SELECT name, coalesce(sum(amount) FILTER (WHERE {days}), 0) AS amount_gpu_hours,
        sum(amount) FILTER (WHERE {{ before }}) AS compared_gpu_hours
    FROM named WHERE name IS NOT NULL GROUP BY name
)
SELECT name, amount_gpu_hours, amount_gpu_hours / nullif(sum(amount_gpu_hours) OVER (), 0) AS share_ratio,
    compared_gpu_hours, amount_gpu_hours / nullif(compared_gpu_hours, 0) - 1 AS change_ratio
FROM summed WHERE amount_gpu_hours > 0

-- question: breakdown
-- title: A measure by day and name
-- order: day, place, name
-- options: dimension, by, user, group, account, workload
-- is_expensive: yes
-- about: {{ amount_about }} The {{ most_names }} names with most of it, and the others together.
--     Partial: not all of the day was under observation.
WITH named AS (SELECT * FROM ({{ named }}) WHERE {days}),
top AS (
    SELECT name, row_number() OVER (ORDER BY sum(amount) DESC, name) AS place
    FROM named WHERE name IS NOT NULL GROUP BY name HAVING sum(amount) > 0
    QUALIFY place <= {{ most_names }}
),
days AS ({{ days_seen }})
SELECT dt AS day, coalesce(top.name, 'others') AS name, coalesce(top.place, {{ most_names + 1 }}) AS place,
    sum(amount) AS amount_gpu_hours, coalesce(is_partial, false) AS is_partial
FROM named LEFT JOIN top USING (name) LEFT JOIN days USING (dt)
GROUP BY ALL
HAVING sum(amount) > 0

-- question: headline
-- title: What to do first
-- order: place
-- options: user, group, account, workload
-- about: The largest of idle, lost and under-used GPU-hours, as a share of what was held, and the user who has most of
--     it. Lost is an upper bound.
WITH holders AS (
    SELECT user_id, sum({{ held }}) AS held, sum(idle_gpu_hours) AS idle, sum(lost_gpu_hours) AS lost,
        sum(under_used_gpu_hours) AS under_used
    FROM gold_ledger_daily
    WHERE user_id IS NOT NULL AND {days} AND {cluster} AND {gpu_type} AND {{ of_holder }}
    GROUP BY user_id
),
parts AS (
    {% for place, name, words, remedy in (
        (1, "idle", "idle: held with no work", "releasing GPUs that do no work"),
        (2, "lost", "lost to failures, time limits and interruptions", "checkpoints before these"),
        (3, "under_used", "under-used", "asking for fewer or smaller GPUs"),
    ) %}
    SELECT {{ place }} AS place, '{{ name }}' AS bucket, '{{ words }}' AS words, '{{ remedy }}' AS remedy,
        sum({{ name }}) AS amount, sum(held) AS held, arg_max(user_id, {{ name }}) AS user_id, max({{ name }}) AS most
    FROM holders
    {{ "UNION ALL" if not loop.last }}
    {% endfor %}
)
SELECT place, bucket, amount AS amount_gpu_hours, amount / nullif(held, 0) AS held_ratio, user_id,
    most AS user_gpu_hours,
    format('{:.0f}% of held GPU-hours were {}', 100 * amount / held, words) AS headline,
    format('{} holds most of them, {:,.0f} h: {} saves up to {:,.0f} GPU-hours.', user_id, most, remedy, most) AS detail
FROM parts WHERE amount > 0 ORDER BY amount DESC LIMIT 1
