-- What predictions ask the lake. Variable: cluster. $no_group is the group of a task that has none.

-- query: timed
-- Tasks with a known run time. A group id equal to the user id is no group; in a cluster without groups, the runs of a
-- user are one.
WITH grouped AS (
    SELECT coalesce(bool_or(group_id != user_id), false) AS has_groups
    FROM silver_jobs WHERE cluster_id = getvariable('cluster')
),

ran AS (
    SELECT
        task_key,
        avg(run_seconds) AS seconds,
        max(ended_at) AS ended_at,
        count(*) AS instances
    FROM silver_instances
    WHERE cluster_id = getvariable('cluster') AND run_seconds >= 0
    GROUP BY task_key
),

timed AS (
    SELECT
        tasks.task_key,
        tasks.task_name,
        tasks.planned_instances,
        tasks.requested_cores,
        tasks.requested_gpus,
        tasks.gpu_type,
        coalesce(tasks.launch_wait_seconds, 0) + coalesce(tasks.start_wait_seconds, 0) AS wait_seconds,
        jobs.job_id,
        jobs.user_id,
        epoch(coalesce(jobs.submitted_at, tasks.launched_at)) AS submitted,
        epoch(ran.ended_at) AS ended,
        ran.seconds,
        ran.instances,
        cast(hash(jobs.user_id) >> 1 AS bigint) AS "user",
        CASE
            WHEN jobs.group_id != jobs.user_id THEN cast(hash(jobs.group_id) >> 1 AS bigint)
            WHEN NOT grouped.has_groups AND jobs.user_id IS NOT NULL THEN cast(hash(jobs.user_id) >> 1 AS bigint)
            ELSE $no_group
        END AS "group",
        cast(
            hash(
                coalesce(jobs.group_id, jobs.user_id),
                tasks.task_name,
                tasks.requested_gpus,
                jobs.requested_gpu_type
            ) >> 1 AS bigint
        ) AS request
    FROM silver_tasks AS tasks
    INNER JOIN ran ON tasks.task_key = ran.task_key
    INNER JOIN silver_jobs AS jobs ON tasks.job_key = jobs.job_key
    CROSS JOIN grouped
    WHERE tasks.cluster_id = getvariable('cluster') AND coalesce(jobs.submitted_at, tasks.launched_at) IS NOT NULL
)

-- query: tasks
-- Ties are in the order of the keys.
$timed

SELECT
    submitted,
    ended,
    seconds,
    instances,
    "user",
    "group",
    request
FROM timed
ORDER BY task_key

-- query: simulator_jobs
$timed

SELECT *, cast(hash("user", requested_gpus) >> 1 AS bigint) AS user_request
FROM timed
ORDER BY task_key

-- query: capacity
SELECT coalesce(round(sum(gpus)), 0) AS gpus FROM silver_capacity WHERE cluster_id = getvariable('cluster')
