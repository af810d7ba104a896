WITH asked AS (
    -- A job that its user or another job holds back is not stuck.
    SELECT
        jobs.cluster_id, coalesce(jobs.partition_id, '') AS partition_id, tasks.launched_at,
        tasks.requested_gpus AS together, tasks.requested_gpus * coalesce(tasks.planned_instances, 1) AS gpus,
        coalesce(tasks.started_at, tasks.ended_at, CASE WHEN tasks.status = 'waiting' THEN TIMESTAMPTZ 'infinity' END)
            AS waited_until
    FROM silver_tasks AS tasks
    INNER JOIN silver_jobs AS jobs ON tasks.job_key = jobs.job_key
    WHERE
        tasks.requested_gpus > 0
        AND NOT regexp_matches(coalesce(jobs.wait_reason, ''), '(?i)depend|held|begintime')
),
-- Few sources have partitions: where none has, there is nothing to join.
placed AS (SELECT job_key, partition_id FROM silver_jobs WHERE partition_id IS NOT NULL),
attempts AS NOT MATERIALIZED (
    SELECT
        instances.cluster_id, coalesce(placed.partition_id, '') AS partition_id, instances.machine_key,
        epoch_ms(instances.started_at) // 3600000 AS hour
    FROM silver_instances AS instances
    LEFT JOIN placed ON instances.job_key = placed.job_key
    WHERE instances.gpus > 0 AND instances.started_at IS NOT NULL
),
starts AS (SELECT cluster_id, partition_id, hour, count(*) AS starts FROM attempts GROUP BY ALL),
partitions AS (
    SELECT cluster_id, partition_id FROM starts GROUP BY cluster_id, partition_id
    HAVING sum(starts) >= {least_starts} * (max(hour) - min(hour) + 1)
),
hours AS (SELECT DISTINCT cluster_id, started_at FROM gold_machine_hours WHERE started_at IS NOT NULL),
-- Whole hours of waiting in which nothing of the partition started.
waiting AS (
    SELECT hours.cluster_id, asked.partition_id, hours.started_at, asked.together, asked.gpus
    FROM asked
    SEMI JOIN partitions ON asked.cluster_id = partitions.cluster_id AND asked.partition_id = partitions.partition_id
    INNER JOIN hours
        ON
            asked.cluster_id = hours.cluster_id
            AND asked.launched_at <= hours.started_at
            AND asked.waited_until >= hours.started_at + INTERVAL 1 HOUR
    ANTI JOIN starts
        ON
            hours.cluster_id = starts.cluster_id
            AND asked.partition_id = starts.partition_id
            AND epoch_ms(hours.started_at) // 3600000 = starts.hour
    WHERE asked.waited_until >= asked.launched_at + INTERVAL 1 HOUR
),
-- The machines of a partition are those that its jobs ever ran on.
free AS (
    SELECT
        places.cluster_id, places.partition_id, machines.started_at, sum(machines.unallocated_gpu_hours) AS free,
        max(machines.unallocated_gpu_hours) AS free_together,
        sum(machines.capacity_gpu_hours - machines.down_gpu_hours) AS available
    FROM (SELECT DISTINCT cluster_id, partition_id, machine_key FROM attempts) AS places
    INNER JOIN gold_machine_hours AS machines ON places.machine_key = machines.machine_key
    SEMI JOIN waiting
        ON
            places.cluster_id = waiting.cluster_id
            AND places.partition_id = waiting.partition_id
            AND machines.started_at = waiting.started_at
    GROUP BY ALL
),
stuck AS (
    SELECT waiting.cluster_id, waiting.partition_id, waiting.started_at, sum(waiting.gpus) AS gpus
    FROM waiting
    INNER JOIN free
        ON
            waiting.cluster_id = free.cluster_id
            AND waiting.partition_id = free.partition_id
            AND waiting.started_at = free.started_at
    -- Large jobs may wait for machines that are wholly free.
    WHERE
        free.free >= {least_free} * free.available
        AND waiting.gpus <= {most_asked} * free.free
        AND waiting.together <= free.free_together
    GROUP BY waiting.cluster_id, waiting.partition_id, waiting.started_at
    HAVING sum(waiting.gpus) >= greatest({least_waiting}, 0.05 * any_value(free.available))
)
SELECT
    found.cluster_id, found.partition_id, epoch_ms(hours.started_at) AS at_ms, coalesce(stuck.gpus, 0) AS stuck_gpus
FROM (SELECT DISTINCT cluster_id, partition_id FROM stuck) AS found
INNER JOIN hours ON found.cluster_id = hours.cluster_id
LEFT JOIN stuck
    ON
        found.cluster_id = stuck.cluster_id
        AND found.partition_id = stuck.partition_id
        AND hours.started_at = stuck.started_at
ORDER BY found.cluster_id, found.partition_id, at_ms
