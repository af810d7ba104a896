WITH moved AS (
    SELECT cluster_id, node_id, gpu_id
    FROM silver_gpu_samples
    GROUP BY cluster_id, node_id, gpu_id
    HAVING
        max(ecc_corrected_total) > min(ecc_corrected_total)
        OR max(ecc_uncorrected_total) > min(ecc_uncorrected_total)
        OR max(pcie_replays_total) > min(pcie_replays_total)
        OR max(nvlink_errors_total) > min(nvlink_errors_total)
)
SELECT
    samples.cluster_id,
    samples.node_id,
    samples.node_id || ' ' || coalesce('GPU ' || any_value(samples.gpu_index), samples.gpu_id) AS subject,
    samples.gpu_id,
    epoch_ms(samples.sampled_at) // 60000 * 60000 AS at_ms,
    arg_max(samples.ecc_corrected_total, samples.sampled_at) AS ecc_corrected_total,
    arg_max(samples.ecc_uncorrected_total, samples.sampled_at) AS ecc_uncorrected_total,
    arg_max(samples.pcie_replays_total, samples.sampled_at) AS pcie_replays_total,
    arg_max(samples.nvlink_errors_total, samples.sampled_at) AS nvlink_errors_total
FROM silver_gpu_samples AS samples
INNER JOIN moved
    ON
        samples.cluster_id = moved.cluster_id
        AND samples.node_id = moved.node_id
        AND samples.gpu_id = moved.gpu_id
GROUP BY samples.cluster_id, samples.node_id, samples.gpu_id, at_ms
ORDER BY samples.cluster_id, samples.node_id, samples.gpu_id, at_ms
