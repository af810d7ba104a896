{# What a person types to find a page. #}
{% set typed %}getvariable('text')::VARCHAR{% endset %}
{% set most_each = 6 %}

-- question: search
-- title: Search
-- order: place, label, detail
-- options: text
-- about: Jobs by the start of their id; users, accounts, machines, incidents and runs by any part of their name. At most
--     {{ most_each }} of a kind, an exact match and the newest first.
WITH jobs AS (
    SELECT job_id, cluster_id, user_id, status FROM silver_jobs WHERE starts_with(job_id, {{ typed }})
    ORDER BY job_id = {{ typed }} DESC, submitted_at DESC NULLS LAST, job_id LIMIT {{ most_each }}
),
users AS (
    SELECT DISTINCT user_id FROM gold_user_gpu_usage_daily WHERE contains(lower(user_id), lower({{ typed }}))
    ORDER BY lower(user_id) = lower({{ typed }}) DESC, user_id LIMIT {{ most_each }}
),
accounts AS (
    SELECT DISTINCT account_id FROM gold_account_gpu_usage_daily WHERE contains(lower(account_id), lower({{ typed }}))
    ORDER BY account_id LIMIT {{ most_each }}
),
machines AS (
    SELECT DISTINCT machine_id, cluster_id, gpu_type FROM silver_machines
    WHERE contains(lower(machine_id), lower({{ typed }})) ORDER BY machine_id, cluster_id, gpu_type LIMIT {{ most_each }}
),
opened AS (
    SELECT incident_id, reason, subject, state FROM incidents
    WHERE starts_with(incident_id, {{ typed }}) OR contains(lower(concat_ws(' ', reason, subject, cause)), lower({{ typed }}))
    ORDER BY incident_id = {{ typed }} DESC, opened_at DESC, incident_id LIMIT {{ most_each }}
),
runs AS (
    SELECT DISTINCT coalesce(nullif(run_id, ''), node_id) AS run_name FROM bronze_nodes
    WHERE contains(lower(coalesce(nullif(run_id, ''), node_id)), lower({{ typed }})) ORDER BY run_name LIMIT {{ most_each }}
)
SELECT 1 AS place, 'job' AS kind, job_id AS label, concat_ws(', ', status, user_id, cluster_id) AS detail,
    '/job?job=' || url_encode(job_id) || '&cluster=' || url_encode(cluster_id) AS link FROM jobs
UNION ALL
SELECT 2, 'user', user_id, '', '/user?user=' || url_encode(user_id) FROM users
UNION ALL
SELECT 3, 'account', account_id, '', '/account?account=' || url_encode(account_id) FROM accounts
UNION ALL
SELECT 4, 'machine', machine_id, concat_ws(', ', gpu_type, cluster_id),
    '/machine?machine=' || url_encode(machine_id) || '&cluster=' || url_encode(cluster_id) FROM machines
UNION ALL
SELECT 5, 'incident', reason, concat_ws(', ', subject, state, incident_id), '/incident?incident=' || url_encode(incident_id)
FROM opened
UNION ALL
SELECT 6, 'run', run_name, '', '/run?run=' || url_encode(run_name) FROM runs
