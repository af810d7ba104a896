-- Machines of a cluster, and machines and users of a job. Variables: cluster; job_id, cluster_id (NULL: any).

-- query: of_cluster
SELECT machine_id FROM silver_machines
WHERE cluster_id = getvariable('cluster') AND machine_id <> '(all machines)'

-- query: of_job
-- Silver has keys of machines; their names are in inventories, in telemetry, and in what sacct printed.
WITH named AS (
    SELECT machine_key, machine_id FROM silver_machines WHERE machine_id <> '(all machines)'
    UNION
    SELECT machine_key, node_id FROM silver_nodes
),
ran_on AS (
    SELECT jobs.cluster_id, named.machine_id
    FROM silver_jobs AS jobs
    INNER JOIN silver_instances AS instances ON jobs.job_key = instances.job_key
    INNER JOIN named ON instances.machine_key = named.machine_key
    WHERE jobs.job_id = getvariable('job_id')
    UNION
    SELECT coalesce(lower("Cluster"), 'slurm'), unnest(string_split(nodes, ','))
    FROM bronze_slurm_jobs
    WHERE job_id = getvariable('job_id') AND nodes <> ''
)
FROM ran_on WHERE getvariable('cluster_id') IS NULL OR cluster_id = getvariable('cluster_id')

-- query: users
SELECT DISTINCT cluster_id, user_id FROM silver_jobs
WHERE
    job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR cluster_id = getvariable('cluster_id'))
