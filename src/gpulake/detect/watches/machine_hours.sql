WITH hours AS (
    SELECT
        cluster_id,
        machine_key,
        started_at,
        CASE
            WHEN used_gpu_hours + idle_gpu_hours + under_used_gpu_hours >= 0.25 * capacity_gpu_hours
                THEN used_gpu_hours / (used_gpu_hours + idle_gpu_hours + under_used_gpu_hours)
        END AS used_ratio
    FROM gold_machine_hours
    WHERE capacity_gpu_hours > 0
),
halves AS (
    SELECT machine_key, epoch_ms(started_at) // 43200000 AS half, avg(used_ratio) AS used_ratio
    FROM hours
    WHERE used_ratio IS NOT NULL
    GROUP BY ALL
    HAVING count(*) >= 6
),
strange AS (
    SELECT machine_key
    FROM halves
    GROUP BY machine_key
    HAVING count(*) >= 8 AND median(used_ratio) - min(used_ratio) >= {fall}
)
SELECT hours.cluster_id, machines.machine_id, epoch_ms(hours.started_at) AS at_ms, hours.used_ratio
FROM hours
INNER JOIN strange ON hours.machine_key = strange.machine_key
INNER JOIN silver_machines AS machines ON hours.machine_key = machines.machine_key
ORDER BY hours.cluster_id, machines.machine_id, at_ms
