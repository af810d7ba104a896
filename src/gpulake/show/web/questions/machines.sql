{# The machines: the ledger of each, which fail more than their peers, and energy. #}
{% from "parts.sql" import held, held_ratio, held_words, inferred_words, lost_at_most, only_range %}
{% from "parts.sql" import sensed, sums, used_words %}
{% set metric %}
CASE coalesce(getvariable('metric')::VARCHAR, 'used')
    {% for name in metrics %}WHEN '{{ name }}' THEN {{ held if name == "held" else name ~ "_gpu_hours" }} {% endfor %}
END
{%- endset %}
{# The hours of a cluster are those of all its machines: one row an hour and GPU type says which there are. #}
{% set steps %}
WITH hours AS (
    SELECT DISTINCT
        gold_ledger_hourly.cluster_id, dt, gold_ledger_hourly.started_at,
        gold_ledger_hourly.started_at AT TIME ZONE time_zone AS local_at
    FROM gold_ledger_hourly INNER JOIN silver_clusters ON gold_ledger_hourly.cluster_id = silver_clusters.cluster_id
    WHERE {days} AND {cluster:gold_ledger_hourly.cluster_id}
),
span AS (SELECT count(DISTINCT dt) <= {{ hourly_days }} AS is_hourly FROM hours),
steps AS (
    SELECT DISTINCT
        cluster_id, CASE WHEN is_hourly THEN epoch(started_at)::BIGINT ELSE epoch(dt)::BIGINT END AS step,
        CASE WHEN is_hourly THEN strftime(local_at, '%Y-%m-%d %H:%M') ELSE strftime(dt, '%Y-%m-%d') END AS begin
    FROM hours CROSS JOIN span
)
{% endset %}
{# Every machine that an inventory lists, that telemetry saw, or that is only known by what jobs held of it. #}
{% set fleet %}
fleet AS (
    SELECT cluster_id, machine_id, gpu_type, gpus, cores, memory_bytes, 'inventory' AS basis FROM silver_machines
    UNION ALL SELECT
        capacity.cluster_id, coalesce(machine_id, '{{ pool }}'), capacity.gpu_type, capacity.gpus::BIGINT,
        node.cores, node.memory_bytes, capacity.basis
    FROM silver_capacity AS capacity
    LEFT JOIN (SELECT machine_key, max(cores) AS cores, max(memory_bytes) AS memory_bytes FROM silver_nodes GROUP BY 1)
        AS node ON capacity.machine_key = node.machine_key
    WHERE capacity.basis != 'inventory'
)
{% endset %}
{% set of %}cluster_id, dt AS day, node_id AS node, gpu_index, gpu_name{% endset %}
{% set where %}{days} AND {cluster}{% endset %}

-- question: fleet_facts
-- title: The machines in numbers
-- order: place
-- about: In these days, within the time under observation.
WITH {{ fleet }},
machines AS (
    SELECT count(*) AS machines, coalesce(sum(gpus), 0) AS gpus,
        CASE WHEN bool_and(basis = 'inventory') THEN 'in the inventory'
            ELSE coalesce(format('{} in the inventory, {} seen by telemetry, {} by what was held',
                count(*) FILTER (basis = 'inventory'), count(*) FILTER (basis = 'telemetry'),
                count(*) FILTER (basis IN ('peak', 'settings'))), 'in the inventory') END AS note
    FROM fleet WHERE gpus > 0 AND {cluster} AND {gpu_type}
),
ledger AS (
    SELECT
        sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) AS used, sum({{ sensed }}) AS sensed,
        sum({{ held }}) AS held, sum(unobserved_gpu_hours) AS unobserved, sum(lost_gpu_hours) AS lost,
        sum(lost_at_least_gpu_hours) AS lost_at_least, sum(inferred_lost_gpu_hours) AS inferred_lost,
        sum(down_gpu_hours) AS down, sum(recorded_down_gpu_hours) AS recorded, sum(unknown_gpu_hours) AS unknown
    FROM gold_ledger_hourly WHERE {days} AND {cluster} AND {gpu_type}
),
demand AS (SELECT max(unknown_demand_ratio) AS unknown_demand FROM silver_clusters WHERE {cluster}),
lemons AS (SELECT count(*) AS lemons FROM gold_lemon_machines WHERE is_lemon AND {cluster} AND {gpu_type})
SELECT place, label, value, unit, words, note, level, link FROM (
    SELECT 1 AS place, 'Machines with GPUs' AS label, machines AS value, 'count' AS unit, NULL AS words,
        note, NULL AS level, '/rows/machines' AS link FROM machines
    UNION ALL SELECT 2, 'GPUs', gpus, 'count', NULL, note, NULL, '/rows/machines' FROM machines
    UNION ALL SELECT 3, 'Used', used / nullif(sensed, 0), 'share_ratio', NULL, {{ used_words }}, NULL,
        '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 4, 'Held', {{ held_ratio }}, 'share_ratio', NULL,
        {{ held_words }} || ' in the time under observation', NULL, '/rows/observed' FROM ledger CROSS JOIN demand
    UNION ALL SELECT 5, 'Lost', lost, 'count', {{ only_range("lost_at_least", "lost", "{:,.0f}") }},
        'GPU-hours' || {{ inferred_words("inferred_lost", "lost") }}, NULL, '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 6, 'Down', down, 'count', NULL, 'GPU-hours' || CASE
            WHEN down > recorded THEN format(', {:.0f}% inferred', 100 * (1 - recorded / down)) ELSE '' END,
        NULL, '/rows/machine_ledgers' FROM ledger
    UNION ALL SELECT 7, 'Unknown', unknown, 'count', NULL, 'GPU-hours: not known whether they were held', NULL,
        '/rows/machine_ledgers' FROM ledger WHERE unknown > 0
    UNION ALL SELECT 8, 'Lemons', lemons, 'count', NULL, 'fail far more than their peers, over all time',
        CASE WHEN lemons > 0 THEN 'bad' ELSE 'good' END, '/rows/lemon_machines' FROM lemons
)
WHERE (SELECT machines FROM machines) > 0 OR (SELECT capacity FROM ledger) > 0

-- question: machine_heat
-- title: Every machine by hour or day
-- order: gpu_type, machine_id, cluster_id
-- options: metric
-- is_expensive: yes
-- about: The metric as a share of the machine's capacity, from each begin to the next, in the cluster's time zone: by
--     the hour up to {{ hourly_days }} days, else by the day. {{ down }}: down for half of the time or more.
--     {{ unobserved }}: held without a sensor for half of the time or more (for used and idle only). {{ unknown }}: not
--     known whether it was held, for half of the time or more. Used is a lower bound, lost an upper bound.
{{ steps }},
begins AS (SELECT cluster_id, list(begin ORDER BY step) AS begins FROM steps GROUP BY cluster_id),
cells AS (
    SELECT
        cluster_id, machine_key, gpu_type, CASE WHEN is_hourly THEN epoch(started_at)::BIGINT ELSE epoch(dt)::BIGINT END
        AS step, sum(capacity_gpu_hours) AS capacity, sum(down_gpu_hours) AS down,
        sum(unobserved_gpu_hours) AS unobserved, sum(unknown_gpu_hours) AS unknown, sum({{ metric }}) AS hours
    FROM gold_machine_hours CROSS JOIN span
    WHERE {days} AND {cluster} AND {gpu_type}
    GROUP BY ALL
),
coded AS (
    SELECT *, CASE
        WHEN capacity <= 0 THEN 3000
        WHEN down >= capacity / 2 AND getvariable('metric')::VARCHAR IS DISTINCT FROM 'down' THEN 2000
        WHEN unknown >= capacity / 2
            AND coalesce(getvariable('metric')::VARCHAR, 'used') NOT IN ('unknown', 'down') THEN 4000
        WHEN unobserved >= capacity / 2
            AND coalesce(getvariable('metric')::VARCHAR, 'used') IN ('used', 'idle') THEN 3000
        ELSE least(round(1000 * hours / capacity)::BIGINT, 1000)
    END AS code FROM cells
),
-- Time and value in one number: sorting numbers is several times faster than a list in the order of something else.
listed AS (
    SELECT cluster_id, machine_key, gpu_type, list_sort(list(step * 10000 + code)) AS codes FROM coded GROUP BY ALL
)
SELECT
    listed.cluster_id, coalesce(machine_id, '{{ pool }}') AS machine_id, listed.gpu_type, begins,
    list_transform(codes, one -> CASE one % 10000 WHEN 2000 THEN {{ down }} WHEN 3000 THEN {{ unobserved }}
        WHEN 4000 THEN {{ unknown }} ELSE one % 10000 / 1000 END) AS shares
FROM listed
INNER JOIN begins ON listed.cluster_id = begins.cluster_id
LEFT JOIN silver_capacity ON listed.machine_key = silver_capacity.machine_key

-- question: machine_ledgers
-- title: The ledger of every machine
-- order: used_ratio NULLS LAST, machine_id, cluster_id
-- is_expensive: yes
-- about: In GPU-hours of the days asked for: the buckets of a machine sum to its capacity in the time under
--     observation. Used is a share of what sensors measured, sensed of what was held, held of capacity.
--     {{ lost_at_most }} The least used first.
WITH sums AS (
    SELECT cluster_id, machine_key, gpu_type, sum(capacity_gpu_hours) AS capacity_gpu_hours,
        {{ sums(buckets + ("lost", "lost_at_least", "inferred_lost"), "_gpu_hours") }}
    FROM gold_machine_hours WHERE {days} AND {cluster} AND {gpu_type} GROUP BY ALL
)
SELECT
    sums.cluster_id, coalesce(machine_id, '{{ pool }}') AS machine_id, sums.gpu_type,
    used_gpu_hours / nullif({{ sensed }}, 0) AS used_ratio, ({{ sensed }}) / nullif({{ held }}, 0) AS sensed_ratio,
    ({{ held }}) / nullif(capacity_gpu_hours, 0) AS held_ratio, sums.* EXCLUDE (cluster_id, machine_key, gpu_type)
FROM sums LEFT JOIN silver_capacity ON sums.machine_key = silver_capacity.machine_key

-- question: machines
-- title: The machines
-- order: cluster_id, gpu_type, machine_id
-- about: Basis: an inventory, telemetry (the GPUs that were sampled), settings, or peak (the most that was held at once).
WITH {{ fleet }}
SELECT cluster_id, machine_id, gpu_type, gpus, cores, memory_bytes, basis FROM fleet WHERE {cluster} AND {gpu_type}

-- question: lemon_machines
-- title: Machines by how much more they fail than their peers
-- order: excess_deviations DESC NULLS LAST, cluster_id, rank
-- about: Over all time. Expected: what machines of the same type with as many jobs had. Lost: at most; at least, what
--     came after a known checkpoint; inferred, what rests on inferred times. At risk: what it would lose beyond its
--     peers in thirty days like these. Both are empty for a machine that is alone of its type.
SELECT
    cluster_id, rank, machine_id, gpu_type, jobs, failed_jobs, expected_failed_jobs, excess_deviations, is_lemon,
    lost_gpu_hours, lost_at_least_gpu_hours, inferred_lost_gpu_hours, gpu_hours_at_risk
FROM gold_lemon_machines WHERE {cluster} AND {gpu_type}

-- question: energy_by_day
-- title: Energy by day
-- order: day
-- about: kWh of the GPUs, worked out from the watts of their type when idle and when busy. Unused: drawn by GPUs that
--     were held and not in use.
SELECT
    dt AS day, sum(energy_kilowatt_hours) AS energy_kwh, sum(wasted_energy_kilowatt_hours) AS unused_energy_kwh,
    sum(capacity_gpu_hours) AS capacity_gpu_hours, sum(busy_gpu_hours) AS busy_gpu_hours
FROM gold_energy_daily WHERE {days} AND {cluster} AND {gpu_type}
GROUP BY dt HAVING sum(energy_kilowatt_hours) IS NOT NULL

-- question: hot_gpus
-- title: GPUs that were hot
-- order: hot_hours DESC, max_celsius DESC, day, cluster_id, node, gpu_index
-- about: By day, the longest above their threshold first. The medians are those of the other GPUs on that day.
SELECT {{ of }}, hot_hours, max_celsius, p95_celsius, threshold_celsius, node_median_celsius, fleet_median_celsius,
    observed_hours
FROM gold_hot_gpus_daily WHERE {{ where }} AND hot_hours > 0

-- question: throttled_gpus
-- title: Throttled GPUs
-- order: throttled_hours DESC, day, cluster_id, node, gpu_index
-- about: Hours of a day in which a GPU was throttled, by reason. Several reasons may apply at once.
SELECT {{ of }}, throttled_ratio, throttled_hours, power_hours, thermal_hours, hardware_hours, settings_hours,
    observed_hours
FROM gold_throttled_gpus_daily WHERE {{ where }} AND throttled_hours > 0

-- question: idle_gpus
-- title: GPUs that were held and idle
-- order: held_idle_hours DESC, day, cluster_id, node, gpu_index
-- about: Hours of a day in which a GPU was held and idle, and who held it for most of them. Held by unknown: it was in
--     use without a known owner. Unknown: not known whether it was held.
SELECT {{ of }}, held_idle_hours, held_hours, idle_ratio, held_empty_hours, idle_owner_kind, idle_owner_id,
    held_by_unknown_hours, unknown_hours, free_hours, observed_hours
FROM gold_idle_gpus_daily WHERE {{ where }} AND held_idle_hours > 0

-- question: gpu_errors
-- title: Errors of GPUs
-- order: serious_errors DESC, errors DESC, day, cluster_id, node, gpu_index
-- about: Counts of a day. Serious: those that cost work, such as Xid errors and memory errors not corrected.
SELECT {{ of }}, serious_errors, errors, xid_counts, ecc_uncorrected, ecc_corrected, pcie_replays, nvlink_errors,
    newly_remapped_uncorrectable, has_remap_pending, has_remap_failure, is_spike
FROM gold_gpu_errors_daily WHERE {{ where }} AND errors > 0
