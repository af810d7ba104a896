-- An imported workload, of which the variable `workload` is the name.

-- query: tasks
SELECT * FROM bronze_opendc_tasks WHERE workload = getvariable('workload') ORDER BY file_row

-- query: fragments
SELECT * FROM bronze_opendc_fragments WHERE workload = getvariable('workload') ORDER BY file_row

-- query: task_files
SELECT
    count(*) AS rows,
    count(DISTINCT file_row) AS places,
    any_value(file_columns) AS file_columns
FROM bronze_opendc_tasks WHERE workload = getvariable('workload')

-- query: fragment_files
SELECT
    count(*) AS rows,
    count(DISTINCT file_row) AS places,
    any_value(file_columns) AS file_columns
FROM bronze_opendc_fragments WHERE workload = getvariable('workload')

-- query: oddities
WITH used AS (
    SELECT
        id,
        sum(duration) AS duration,
        max(cpu_usage) AS cpu_usage,
        max(gpu_usage) AS gpu_usage
    FROM bronze_opendc_fragments WHERE workload = getvariable('workload')
    GROUP BY id
),

tasks AS (
    SELECT *, lag(submission_time) OVER (ORDER BY file_row) AS last_submission_time
    FROM bronze_opendc_tasks WHERE workload = getvariable('workload')
),

events AS (
    SELECT submission_time AS instant, 1 AS change FROM tasks
    UNION ALL
    SELECT submission_time + duration AS instant, -1 AS change FROM tasks
),

running AS (
    SELECT sum(change) OVER (ORDER BY instant, change) AS tasks_at_once FROM events
)

SELECT
    count(*) FILTER (WHERE used.id IS NULL) AS without_fragments,
    count(*) FILTER (WHERE used.duration != tasks.duration) AS not_covered,
    count(*) FILTER (WHERE used.cpu_usage > tasks.cpu_capacity) AS cpu_above,
    count(*) FILTER (WHERE used.gpu_usage > tasks.gpu_capacity) AS gpu_above,
    count(*) FILTER (WHERE tasks.submission_time < tasks.last_submission_time) AS out_of_order,
    count(*) - count(DISTINCT tasks.id) AS same_id,
    coalesce(max(tasks.cpu_count), 1) AS most_cores,
    coalesce(max(tasks.cpu_capacity / greatest(tasks.cpu_count, 1)), 0) AS core_mhz,
    coalesce(max(tasks.gpu_count), 0) AS most_gpu_cores,
    coalesce(max(tasks.gpu_capacity / greatest(tasks.gpu_count, 1)), 0) AS gpu_mhz,
    coalesce(max(tasks.mem_capacity), 1) AS most_kb,
    (SELECT cast(max(running.tasks_at_once) AS bigint) FROM running) AS tasks_at_once
FROM tasks
LEFT JOIN used ON tasks.id = used.id
