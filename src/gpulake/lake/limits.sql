-- What a viewer with limits may see. {landed}, {names} and {keys} are filled in for each viewer.

-- query: columns
SELECT database_name AS catalogue, table_name AS name, list(column_name ORDER BY column_index) AS columns
FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main' AND database_name IN ('lake', '{landed}') GROUP BY ALL
ORDER BY catalogue DESC

-- query: jobs
SELECT job_key, cluster_id, job_id, user_id, coalesce(user_id, '') AS named_user, coalesce(group_id, '') AS named_group,
    coalesce(group_id IN ({names}) OR account_id IN ({names}) OR user_id IN ({names}), false) AS is_theirs
FROM lake.main.silver_jobs

-- query: no_jobs
SELECT 0::BIGINT AS job_key, '' AS cluster_id, '' AS job_id, '' AS user_id, '' AS named_user, '' AS named_group,
    false AS is_theirs WHERE false
