-- query: silver_jobs
-- One row per job. PAI's own times and words of its job table; jobs of other schedulers in the same words.
WITH events AS (
    SELECT DISTINCT ON (job_name) * FROM landed.main.bronze_job_events ORDER BY job_name, end_time DESC NULLS LAST
),
jobs AS (
    SELECT
        jobs.job_id, events.inst_id AS instance_id, jobs.user_id,
        coalesce(events.status, CASE jobs.status
            WHEN 'succeeded' THEN 'Terminated' WHEN 'running' THEN 'Running' WHEN 'waiting' THEN 'Waiting'
            WHEN 'interrupted' THEN 'Interrupted' WHEN 'unknown' THEN 'Unknown' ELSE 'Failed'
        END) AS job_status,
        CASE WHEN events.job_name IS NULL THEN epoch(jobs.started_at) ELSE events.start_time END AS start_time,
        CASE WHEN events.job_name IS NULL THEN epoch(jobs.ended_at) ELSE events.end_time END AS end_time
    FROM lake.main.silver_jobs AS jobs
    LEFT JOIN events ON jobs.job_id = events.job_name AND jobs.cluster_id IN ('pai', 'synth')
)
SELECT *, end_time - start_time AS run_time_sec FROM jobs

-- query: silver_gpu_timeseries
SELECT
    machine AS machine_id, worker_name, end_time AS ts, machine_gpu AS gpu_util_pct, machine_cpu AS cpu_util_pct,
    machine_load_1, machine_net_receive, machine_cpu_iowait, machine_cpu_kernel, machine_cpu_usr, machine_num_worker
FROM landed.main.bronze_machine_metrics
WHERE end_time IS NOT NULL

-- query: gold_cluster_util_daily
SELECT dt, avg_gpu_util, p95_gpu_util, avg_cpu_util FROM lake.main.gold_cluster_util_daily_reference

-- query: gold_cluster_util_daily_scored
SELECT dt, avg_gpu_util, p95_gpu_util, avg_cpu_util, anomaly_flag, anomaly_score
FROM lake.main.gold_cluster_util_daily_scored
