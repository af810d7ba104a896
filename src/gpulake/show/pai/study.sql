-- query: cluster
-- The real trace if the lake has it, otherwise a generated one.
SELECT coalesce(min(cluster_id), 'pai') AS cluster_id
FROM (FROM silver_clusters SELECT cluster_id UNION FROM silver_machines SELECT cluster_id)
WHERE cluster_id IN ('pai', 'synth')

-- query: present
-- By the names of the trace: the tables of which a build has rows.
SELECT
    exists(FROM silver_jobs WHERE cluster_id = getvariable('cluster')) AS pai_job_table,
    exists(FROM silver_tasks WHERE cluster_id = getvariable('cluster')) AS pai_task_table,
    exists(FROM silver_instances WHERE cluster_id = getvariable('cluster')) AS pai_instance_table,
    exists(FROM silver_instance_usage) AS pai_sensor_table,
    exists(FROM silver_jobs WHERE cluster_id = getvariable('cluster') AND group_id != user_id) AS pai_group_tag_table,
    exists(FROM silver_machines WHERE cluster_id = getvariable('cluster')) AS pai_machine_spec,
    exists(FROM silver_gpu_timeseries WHERE cluster_id = getvariable('cluster')) AS pai_machine_metric

-- query: tasks_of_users
SELECT count(*) AS tasks
FROM silver_tasks AS tasks INNER JOIN silver_jobs AS jobs USING (job_key)
WHERE tasks.cluster_id = getvariable('cluster') AND jobs.user_id IS NOT NULL
GROUP BY jobs.user_id

-- query: planned
SELECT planned_instances AS size FROM silver_tasks
WHERE cluster_id = getvariable('cluster') AND planned_instances > 0

-- query: recorded
-- The first attempt of an instance stands for it.
SELECT count(*) AS size FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND attempt = 1
GROUP BY task_key

-- query: recurrence
-- A job without a tag does not recur: other jobs of its user are not repetitions.
SELECT count(*) AS size
FROM silver_tasks AS tasks INNER JOIN silver_jobs AS jobs USING (job_key)
WHERE tasks.cluster_id = getvariable('cluster')
GROUP BY CASE WHEN jobs.group_id != jobs.user_id THEN jobs.group_id ELSE tasks.task_key::VARCHAR END

-- query: hours
-- Requests are per instance; an instance that was planned asks for its share.
WITH hourly AS (
    SELECT
        floor((epoch(tasks.launched_at) + clusters.hour_shift_seconds) / 3600) * 3600 - clusters.hour_shift_seconds
            AS second,
        clusters.time_zone,
        count(*) AS tasks,
        sum(tasks.requested_cores * tasks.planned_instances) AS cores,
        sum(tasks.requested_gpus * tasks.planned_instances) AS gpus,
        sum(tasks.requested_memory_bytes * tasks.planned_instances) / 2 ** 30 AS memory_gb
    FROM silver_tasks AS tasks INNER JOIN silver_clusters AS clusters USING (cluster_id)
    WHERE tasks.cluster_id = getvariable('cluster') AND tasks.launched_at IS NOT NULL
    GROUP BY ALL
)
SELECT
    timezone(time_zone, to_timestamp(second))::DATE AS dt, hour(timezone(time_zone, to_timestamp(second))) AS hour,
    tasks, cores, gpus, memory_gb
FROM hourly

-- query: whole_days
-- A day that the trace covers from end to end, but for a minute.
SELECT dt FROM silver_days WHERE cluster_id = getvariable('cluster') AND observed_seconds >= 86340 ORDER BY dt

-- query: task_times
-- The wait of a task is that until its first instance; its run time the mean of those of its instances.
WITH ran AS (
    SELECT task_key, avg(run_seconds) AS run_seconds
    FROM silver_instances
    WHERE cluster_id = getvariable('cluster') AND run_seconds >= 0
    GROUP BY task_key
)
SELECT
    CASE WHEN tasks.requested_gpus > 0 THEN coalesce(tasks.gpu_type, 'unknown') END AS gpu_type,
    tasks.requested_gpus * 100 AS plan_gpu,
    tasks.status = 'succeeded' AS is_over,
    CASE WHEN tasks.start_wait_seconds >= 0 THEN tasks.start_wait_seconds END AS wait,
    ran.run_seconds
FROM silver_tasks AS tasks LEFT JOIN ran USING (task_key)
WHERE tasks.cluster_id = getvariable('cluster')

-- query: task_usage
-- A worker counts once, though it may have run twice or have a sensor for each of its GPUs. Plans are summed over the
-- workers that have a sensor: only of those is it known what they used. The capacity is summed in both ways: over
-- workers, as the notebook does, and over the machines that they ran on, each once.
WITH
sensed AS (
    SELECT worker_key, min(task_key) AS task_key, min(machine_key) AS machine_key
    FROM silver_instances SEMI JOIN silver_instance_usage USING (worker_key)
    WHERE cluster_id = getvariable('cluster')
    GROUP BY worker_key
),
workers AS (
    FROM sensed INNER JOIN silver_instance_usage USING (worker_key)
),
placed AS (
    SELECT
        workers.task_key, workers.machine_key, count(*) AS workers, sum(workers.used_cores) AS used_cores,
        sum(workers.used_gpus) AS used_gpus, sum(workers.mean_memory_bytes) AS memory_bytes,
        sum(workers.mean_gpu_memory_bytes) AS gpu_memory_bytes
    FROM workers
    GROUP BY workers.task_key, workers.machine_key
),
used AS (
    SELECT
        placed.task_key, sum(placed.workers) AS workers, sum(placed.used_cores) AS used_cores,
        sum(placed.used_gpus) AS used_gpus, sum(placed.memory_bytes) AS memory_bytes,
        sum(placed.gpu_memory_bytes) AS gpu_memory_bytes,
        sum(placed.workers * machines.cores) AS worker_cores, sum(machines.cores) AS machine_cores,
        sum(placed.workers * machines.gpus) AS worker_gpus, sum(machines.gpus) AS machine_gpus,
        sum(placed.workers * machines.memory_bytes) AS worker_memory, sum(machines.memory_bytes) AS machine_memory
    FROM placed LEFT JOIN silver_machines AS machines USING (machine_key)
    GROUP BY placed.task_key
)
SELECT
    used.workers,
    used.workers * tasks.requested_cores * 100 AS plan_cpu,
    used.used_cores * 100 AS cpu,
    nullif(used.workers * tasks.requested_gpus * 100, 0) AS plan_gpu,
    used.used_gpus * 100 AS gpu,
    used.workers * tasks.requested_memory_bytes / 2 ** 30 AS plan_mem,
    used.memory_bytes / 2 ** 30 AS mem,
    used.gpu_memory_bytes / 2 ** 30 AS gpu_mem,
    used.worker_cores * 100 AS worker_cpu, used.machine_cores * 100 AS machine_cpu,
    used.worker_gpus * 100 AS worker_gpu, used.machine_gpus * 100 AS machine_gpu,
    used.worker_memory / 2 ** 30 AS worker_mem, used.machine_memory / 2 ** 30 AS machine_mem
FROM silver_tasks AS tasks INNER JOIN used USING (task_key)

-- query: worker_medians
-- Of single workers, as in the paper.
SELECT
    median(usage.used_cores) AS cores_used,
    median(usage.used_gpus) FILTER (WHERE instances.gpus > 0) AS gpu_used,
    median(instances.gpus) FILTER (WHERE instances.gpus > 0) AS gpu_asked,
    median(usage.mean_memory_bytes) / 2 ** 30 AS memory_used_gb,
    median(usage.mean_gpu_memory_bytes) FILTER (WHERE instances.gpus > 0) / 2 ** 30 AS gpu_memory_used_gb
FROM silver_instances AS instances INNER JOIN silver_instance_usage AS usage USING (worker_key)
WHERE instances.cluster_id = getvariable('cluster')

-- query: reads
SELECT network_read_bytes * 8 / 2 ** 30 AS gigabits FROM silver_instance_usage WHERE network_read_bytes IS NOT NULL

-- query: processors
SELECT cpu_user_ratio * 100 AS usr, cpu_kernel_ratio * 100 AS kernel, cpu_iowait_ratio * 100 AS iowait
FROM silver_gpu_timeseries
WHERE cluster_id = getvariable('cluster')

-- query: utilisation
-- Time counts, not rows: overlapping windows of a machine were made one, and each stretch weighs its seconds.
SELECT
    coalesce(machines.gpu_type, 'CPU') AS gpu_type,
    round(200 * stretches.busy_gpus / nullif(machines.gpus, 0)) / 2 AS gpu,
    round(200 * stretches.cpu_util_ratio) / 2 AS cpu,
    sum(stretches.seconds) AS seconds
FROM silver_machine_stretches AS stretches INNER JOIN silver_machines AS machines USING (machine_key)
WHERE stretches.cluster_id = getvariable('cluster') AND stretches.seconds > 0
GROUP BY ALL

-- query: contention
-- A run beside the usual run of its group and role, by how busy the processors of its machine were meanwhile.
WITH runs AS (
    SELECT
        least(floor(windows.cpu_util_ratio * 5), 4)::BIGINT AS fifth,
        instances.run_seconds / nullif(median(instances.run_seconds) OVER alike, 0) AS pace,
        count(*) OVER alike AS runs
    FROM silver_gpu_timeseries AS windows
    INNER JOIN silver_instances AS instances USING (worker_key)
    INNER JOIN silver_jobs AS jobs USING (job_key)
    WHERE
        windows.cluster_id = getvariable('cluster') AND windows.cpu_util_ratio IS NOT NULL
        AND instances.status = 'succeeded' AND instances.run_seconds > 0 AND jobs.group_id != jobs.user_id
    WINDOW alike AS (PARTITION BY jobs.group_id, instances.task_name)
)
SELECT fifth, median(pace) AS median_pace, quantile_cont(pace, 0.9) AS p90_pace, count(*) AS runs
FROM runs
WHERE runs >= 5
GROUP BY fifth
ORDER BY fifth

-- query: sharing
-- What is held on the hour: whole GPUs if nobody shared; and shared, full machines of them, each rounded up.
WITH
edges AS (
    SELECT
        machine_key, ceil(epoch(held_from) / 3600)::BIGINT AS hour_number, gpus, ceil(round(gpus, 6)) AS whole
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
    UNION ALL
    SELECT machine_key, ceil(epoch(held_until) / 3600)::BIGINT, -gpus, -ceil(round(gpus, 6))
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
),
changes AS (
    SELECT machine_key, hour_number, sum(gpus) AS gpus, sum(whole) AS whole
    FROM edges
    GROUP BY machine_key, hour_number
),
packed AS (
    SELECT
        machine_key, hour_number, whole,
        ceil(round(sum(gpus) OVER (PARTITION BY machine_key ORDER BY hour_number), 6)) AS held
    FROM changes
),
steps AS (
    SELECT
        hour_number, sum(whole) AS whole, sum(change) AS packed
    FROM (
        SELECT
            hour_number, whole,
            held - coalesce(lag(held) OVER (PARTITION BY machine_key ORDER BY hour_number), 0) AS change
        FROM packed
    )
    GROUP BY hour_number
),
running AS (
    SELECT
        hour_number, sum(whole) OVER (ORDER BY hour_number) AS whole, sum(packed) OVER (ORDER BY hour_number) AS packed
    FROM steps
)
SELECT
    strftime(timezone(clusters.time_zone, to_timestamp(running.hour_number * 3600)), '%Y-%m-%d %H:%M') AS hour,
    running.whole, running.packed
FROM running CROSS JOIN (FROM silver_clusters WHERE cluster_id = getvariable('cluster')) AS clusters
WHERE
    to_timestamp(running.hour_number * 3600) BETWEEN clusters.observed_from AND clusters.observed_until
ORDER BY running.hour_number

-- query: inventory
SELECT
    coalesce(gpu_type, 'CPU') AS gpu_type, cores, memory_bytes / 2 ** 30 AS memory_gb, gpus AS gpus_each,
    count(*) AS machines, sum(gpus) AS gpus
FROM silver_machines
WHERE cluster_id = getvariable('cluster')
GROUP BY ALL
ORDER BY ALL

-- query: statuses
SELECT
    status, count(*) AS attempts,
    100 * count(*) / sum(count(*)) OVER () AS percent,
    100 * count(*) FILTER (WHERE started_at IS NULL) / count(*) AS no_start,
    100 * count(*) FILTER (WHERE ended_at IS NULL) / count(*) AS no_end,
    100 * count(*) FILTER (WHERE worker_key IS NULL) / count(*) AS no_worker
FROM silver_instances
WHERE cluster_id = getvariable('cluster')
GROUP BY status
ORDER BY attempts DESC, status

-- query: attempts
WITH tries AS (
    SELECT max(attempt) AS attempts FROM silver_instances
    WHERE cluster_id = getvariable('cluster')
    GROUP BY instance_key
)
SELECT attempts, count(*) AS instances FROM tries GROUP BY attempts ORDER BY attempts

-- query: workers
SELECT count(DISTINCT worker_key) AS workers, count(worker_key) AS runs
FROM silver_instances
WHERE cluster_id = getvariable('cluster')

-- query: runs
SELECT run_seconds FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND status = 'succeeded' AND run_seconds >= 0

-- query: types
SELECT
    CASE
        WHEN instances.machine_key IS NULL THEN 'no machine'
        WHEN machines.machine_key IS NULL THEN 'not in the inventory'
        ELSE coalesce(machines.gpu_type, 'CPU')
    END AS gpu_type,
    100 * count(*) / sum(count(*)) OVER () AS percent,
    median(instances.run_seconds) FILTER (WHERE instances.status = 'succeeded') AS median_seconds
FROM silver_instances AS instances LEFT JOIN silver_machines AS machines USING (machine_key)
WHERE instances.cluster_id = getvariable('cluster')
GROUP BY ALL

-- query: starts
-- Counted by the hour first: asking the time zone of each start would take longer than all the rest.
WITH hourly AS (
    SELECT
        floor((epoch(instances.started_at) + clusters.hour_shift_seconds) / 3600) * 3600 - clusters.hour_shift_seconds
            AS second,
        clusters.time_zone,
        count(*) AS starts
    FROM silver_instances AS instances INNER JOIN silver_clusters AS clusters USING (cluster_id)
    WHERE instances.cluster_id = getvariable('cluster') AND instances.started_at IS NOT NULL
    GROUP BY ALL
)
SELECT hour(timezone(time_zone, to_timestamp(second))) AS hour, sum(starts)::BIGINT AS starts
FROM hourly
GROUP BY ALL
ORDER BY ALL

-- query: build
SELECT build_id, built_at, gpulake_version FROM build_info
