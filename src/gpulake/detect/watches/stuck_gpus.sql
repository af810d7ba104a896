WITH samples AS (
    SELECT
        cluster_id,
        node_id,
        {holder} AS job_id,
        coalesce(CAST(gpu_index AS VARCHAR), gpu_id) AS gpu,
        epoch_ms(sampled_at) // 10000 * 10000 AS at_ms,
        coalesce(dram_active_ratio, memory_busy_ratio) AS moving
    FROM silver_gpu_samples
    WHERE parent_gpu_id IS NULL AND busy_ratio >= 0.9 AND coalesce(dram_active_ratio, memory_busy_ratio) IS NOT NULL
),
strange AS (
    SELECT cluster_id, node_id, job_id
    FROM samples
    GROUP BY cluster_id, node_id, job_id
    HAVING
        count(DISTINCT at_ms) FILTER (moving <= {still}) * 10 >= {seconds}
        AND count(DISTINCT at_ms) FILTER (moving > {still}) >= 20
)
SELECT samples.cluster_id, samples.node_id, samples.job_id, samples.at_ms, samples.gpu, avg(samples.moving) AS seen
FROM samples
INNER JOIN strange
    ON
        samples.cluster_id = strange.cluster_id
        AND samples.node_id = strange.node_id
        AND samples.job_id IS NOT DISTINCT FROM strange.job_id
GROUP BY ALL
ORDER BY samples.cluster_id, samples.node_id, samples.job_id, samples.at_ms, samples.gpu
