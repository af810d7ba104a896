-- What may have a price. Variables: cluster.

-- query: findings
SELECT
    coalesce(nullif(finding_id, ''), kind || ' ' || subject) AS subject_id,
    kind,
    subject,
    coalesce(node, '') AS node,
    coalesce(job_id, '') AS job_id,
    epoch(began_at) AS begin_s,
    epoch(ended_at) AS end_s
FROM findings
WHERE coalesce(cluster_id, getvariable('cluster')) = getvariable('cluster')
ORDER BY rank

-- query: incidents
SELECT
    incident_id AS subject_id,
    kind,
    subject,
    coalesce(node, '') AS node,
    coalesce(job_id, '') AS job_id,
    epoch(began_at) AS begin_s,
    epoch(last_seen_at) AS end_s
FROM incidents
WHERE coalesce(cluster_id, getvariable('cluster')) = getvariable('cluster') AND coalesce(merged_into, '') = ''
ORDER BY began_at DESC, incident_id

-- query: cancellations
-- Jobs with idle GPUs that were cancelled.
SELECT
    'cancel ' || job_id AS subject_id,
    'cancelled' AS kind,
    job_id AS subject,
    '' AS node,
    job_id,
    epoch(min(nudged_at)) AS begin_s,
    NULL AS end_s
FROM nudges
WHERE cluster_id = getvariable('cluster') AND step = 'cancel' AND status = 'done'
GROUP BY job_id
ORDER BY job_id

-- query: recoveries
-- Jobs that were restarted from a checkpoint. A dry run has restarted none.
SELECT
    recovery_id AS subject_id,
    'restarted' AS kind,
    any_value(job_id) AS subject,
    '' AS node,
    any_value(job_id) AS job_id,
    epoch(min(stepped_at)) AS begin_s,
    NULL AS end_s
FROM recoveries
WHERE
    coalesce(cluster_id, getvariable('cluster')) = getvariable('cluster')
    AND step IN ('restart', 'rollback') AND status = 'done' AND executor <> 'dry-run' AND job_id IS NOT NULL
    AND json_extract_string(detail, '$.checkpoint') IS NOT NULL
GROUP BY recovery_id
ORDER BY recovery_id
