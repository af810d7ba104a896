WITH points AS (
    SELECT
        cluster_id,
        node_id,
        epoch_ms(sampled_at) // 600000 * 600000 AS at_ms,
        avg(cpu_busy_ratio) AS cpu_busy_ratio,
        avg(cpu_system_ratio) AS cpu_system_ratio,
        avg(cpu_iowait_ratio) AS cpu_iowait_ratio,
        avg(cpu_steal_ratio) AS cpu_steal_ratio
    FROM silver_host_samples
    WHERE cpu_busy_ratio IS NOT NULL
    GROUP BY ALL
),
strange AS (
    SELECT cluster_id, node_id
    FROM points
    GROUP BY cluster_id, node_id
    HAVING
        greatest(
            max(cpu_busy_ratio) - median(cpu_busy_ratio),
            median(cpu_busy_ratio) - min(cpu_busy_ratio),
            max(cpu_system_ratio) - median(cpu_system_ratio),
            max(cpu_iowait_ratio) - median(cpu_iowait_ratio),
            max(cpu_steal_ratio) - median(cpu_steal_ratio)
        ) >= {least}
)
SELECT points.*
FROM points
INNER JOIN strange ON points.cluster_id = strange.cluster_id AND points.node_id = strange.node_id
ORDER BY points.cluster_id, points.node_id, points.at_ms
