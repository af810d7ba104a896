WITH runs AS (
    SELECT
        task_key,
        any_value(job_key) AS job_key,
        any_value(task_name) AS task_name,
        any_value(machine_key) AS machine_key,
        min(started_at) AS started_at,
        ln(max(run_seconds)) AS took,
        min(machine_key) = max(machine_key) AND count(*) = count(machine_key) AS is_on_one_machine
    FROM silver_instances
    WHERE status = 'succeeded' AND run_seconds >= 1
    GROUP BY task_key
),
-- Groups are long texts and recur in every job: their hashes are compared instead.
tasks AS (
    SELECT
        runs.machine_key,
        hash(jobs.group_id) AS group_key,
        hash(jobs.group_id, runs.task_name) AS role_key,
        runs.started_at,
        runs.took,
        runs.is_on_one_machine
    FROM runs
    INNER JOIN silver_jobs AS jobs ON runs.job_key = jobs.job_key
    WHERE jobs.group_id IS NOT NULL AND runs.task_name IS NOT NULL
),
usual AS (
    SELECT role_key, median(took) AS took
    FROM tasks
    GROUP BY role_key
    HAVING count(*) >= {least_runs}
),
compared AS (
    SELECT
        tasks.machine_key,
        tasks.group_key,
        tasks.started_at,
        greatest(-1, least(1, tasks.took - usual.took)) AS log_times_longer
    FROM tasks
    INNER JOIN usual ON tasks.role_key = usual.role_key
    WHERE tasks.is_on_one_machine
),
days AS (
    SELECT
        machine_key,
        group_key,
        min(epoch_ms(started_at)) AS at_ms,
        avg(log_times_longer) AS log_times_longer
    FROM compared
    GROUP BY machine_key, group_key, epoch_ms(started_at) // 86400000
),
points AS (SELECT machine_key, at_ms, avg(log_times_longer) AS log_times_longer FROM days GROUP BY ALL),
windows AS (
    SELECT
        *,
        avg(log_times_longer) OVER (
            PARTITION BY machine_key ORDER BY at_ms ROWS BETWEEN {window} PRECEDING AND CURRENT ROW
        ) AS lately,
        median(log_times_longer) OVER (PARTITION BY machine_key) AS always
    FROM points
),
strange AS (
    SELECT machine_key
    FROM windows
    GROUP BY machine_key
    HAVING count(*) > {least_points} AND max(lately - always) >= ln({times})
)
SELECT machines.cluster_id, machines.machine_id, windows.at_ms, windows.log_times_longer
FROM windows
INNER JOIN strange ON windows.machine_key = strange.machine_key
INNER JOIN silver_machines AS machines ON windows.machine_key = machines.machine_key
ORDER BY machines.cluster_id, machines.machine_id, windows.at_ms
