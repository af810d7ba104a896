WITH usual AS (
    SELECT cluster_id, gpu_name, median(loaded_clock_hertz) AS hertz FROM silver_gpu_hours GROUP BY ALL
),
nodes AS (
    SELECT
        hours.cluster_id, node_id, epoch_ms(started_at) AS at_ms, sum(observed_hours) AS observed,
        CASE WHEN coalesce(median(mean_celsius), 0) < {hot_celsius} THEN sum(thermal_hours) ELSE 0 END AS heat,
        sum(braked_hours) AS power,
        sum(observed_hours) FILTER (loaded_clock_hertz < {slow_ratio} * usual.hertz) AS low_clocks
    FROM silver_gpu_hours AS hours
    LEFT JOIN usual ON hours.cluster_id = usual.cluster_id AND hours.gpu_name IS NOT DISTINCT FROM usual.gpu_name
    WHERE observed_hours > 0 AND node_id IS NOT NULL AND started_at IS NOT NULL
    GROUP BY hours.cluster_id, node_id, started_at
)
SELECT cluster_id, node_id, at_ms, reason, coalesce(hours, 0) / observed AS seen
FROM nodes
-- A node that the power brake holds back has low clocks, too.
CROSS JOIN LATERAL (
    SELECT unnest(['power', 'heat', 'low clocks']) AS reason,
        unnest([power, heat, CASE WHEN coalesce(greatest(power, heat), 0) = 0 THEN low_clocks END]) AS hours
)
