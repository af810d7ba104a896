{# Data quality: what landed, what did not parse, data tests, freshness, and the steps of gpulake. #}
{# A reason quotes what did not parse; without the quotation many rows share a reason. #}
{% set shape %}
regexp_replace(
    regexp_replace(reason, '(?s)string ".*" to', 'string … to'), '(?s) is .*, which is not', ' is …, which is not')
{% endset %}

-- question: quality_counts
-- title: Whether the lake can be trusted
-- order: place
-- about: Files and rows are those that the lake holds now.
WITH tests AS (
    SELECT count(*) AS every, count(*) FILTER (status = 'fail') AS failed, count(*) FILTER (status = 'warn') AS warned
    FROM test_results
),
live AS (
    SELECT coalesce(sum(rows_landed), 0)::BIGINT AS landed, coalesce(sum(rows_quarantined), 0)::BIGINT AS quarantined,
        count(*) AS files, max(landed_at) AS landed_at
    FROM (SELECT DISTINCT ON ("table", file) * FROM landings WHERE is_live ORDER BY "table", file, landed_at)
),
last_run AS (SELECT * FROM runs WHERE run_id = (SELECT arg_max(run_id, started_at) FROM runs)),
steps AS (SELECT count(*) AS every, count(*) FILTER (status = 'failed') AS failed FROM last_run),
tiles AS (
    SELECT 1 AS place, 'tests failed' AS label, failed AS value,
        format('of {:,} of the last build', every) AS note, '/rows/test_results?status=fail' AS link,
        CASE WHEN failed > 0 THEN 'bad' WHEN every > 0 THEN 'good' ELSE '' END AS level FROM tests
    UNION ALL SELECT 2, 'tests warned', warned, 'warnings do not stop a build', '/rows/test_results?status=warn',
        CASE WHEN warned > 0 THEN 'bad' ELSE '' END FROM tests
    UNION ALL SELECT 3, 'rows that did not parse', quarantined, format('{:,} rows landed', landed),
        '/rows/quarantine_by_reason', CASE WHEN quarantined > 0 THEN 'bad' ELSE 'good' END FROM live
    UNION ALL SELECT 4, 'files landed', files,
        coalesce('the last at ' || strftime(landed_at, '%Y-%m-%d %H:%M UTC'), 'none yet'), '/rows/landed_files', ''
        FROM live
    UNION ALL SELECT 5, 'steps failed', failed, format('of the {:,} of the last command', every),
        '/rows/steps?status=failed', CASE WHEN failed > 0 THEN 'bad' WHEN every > 0 THEN 'good' ELSE '' END FROM steps
)
SELECT * FROM tiles

-- question: cluster_freshness
-- title: Up to when each cluster is known
-- order: last_event_at, cluster_id
-- about: The last event that the build knows of, and when it was built. In UTC. Coverage: observed GPU-hours over
--     capacity.
WITH covered AS (
    SELECT cluster_id, count(*) AS days, count(*) FILTER (is_poorly_covered) AS poorly_covered_days,
        sum(observed_gpu_hours) / nullif(sum(capacity_gpu_hours), 0) AS coverage_ratio
    FROM gold_cluster_coverage_daily GROUP BY cluster_id
)
SELECT cluster_id, observed_until AS last_event_at, observed_from AS first_event_at, built_at, days,
    poorly_covered_days, coverage_ratio, time_zone
FROM silver_clusters LEFT JOIN covered USING (cluster_id) CROSS JOIN (SELECT built_at FROM build_info)
WHERE {cluster}

-- question: landed_tables
-- title: What landed, by table
-- order: files_not_built DESC, rows_quarantined DESC, "table"
-- about: What the lake holds now. Files that are not built wait for the next: gpulake build.
WITH live AS (SELECT DISTINCT ON ("table", file) * FROM landings WHERE is_live ORDER BY "table", file, landed_at),
used AS (SELECT "table", file, true AS is_built FROM build_inputs)
SELECT "table", count(*) AS files, count(*) FILTER (is_built IS NULL) AS files_not_built,
    sum(rows_landed)::BIGINT AS rows_landed, sum(rows_quarantined)::BIGINT AS rows_quarantined,
    sum(rows_quarantined) / nullif(sum(rows_read), 0) AS quarantined_ratio, sum(size_bytes)::BIGINT AS size_bytes,
    max(landed_at) AS landed_at
FROM live LEFT JOIN used USING ("table", file) GROUP BY "table"

-- question: landed_files
-- title: Files as they landed, the newest first
-- order: landed_at DESC, source, version
-- options: table
-- about: Each version of each source. The tables hold those that are live.
SELECT source, "table", version, is_live, rows_read, rows_landed, rows_quarantined, size_bytes, landed_at
FROM landings WHERE (getvariable('table') IS NULL OR "table" = getvariable('table'))

-- question: table_freshness
-- title: When each table was built
-- order: is_carried_over DESC, built_at, "table"
-- about: A partial build carries the other tables over from the one before it.
SELECT tables."table", split_part(tables."table", '_', 1) AS layer, tables.built_at, tables.build_id,
    tables.build_id <> build_info.build_id AS is_carried_over
FROM table_builds AS tables CROSS JOIN build_info

-- question: build
-- title: The build in use
-- order: build_id
-- about: An increment extends the build before it by the new files; it counts what it rebuilt.
SELECT build_id, built_at, gpulake_version, is_increment, touched_jobs, touched_days, late_attempts,
    (SELECT count(*) FROM build_inputs) AS input_files, (SELECT count(*) FROM table_builds) AS tables
FROM build_info

-- question: coverage_by_day
-- title: Coverage by day
-- order: cluster_id, day
-- about: Share of the capacity's GPU-hours that a sensor measured. A day that has far less than the median day is
--     poorly covered: do not trust what it seems to say.
SELECT dt AS day, cluster_id, coverage_ratio, is_poorly_covered, observed_machines, observed_gpu_hours,
    capacity_gpu_hours
FROM gold_cluster_coverage_daily WHERE {days} AND {cluster}

-- question: quarantine_by_reason
-- title: Rows that did not parse, by table and reason
-- order: rows DESC, "table", reason
-- about: Kept as they were, with file and line. Land a corrected file to replace them.
SELECT "table", reason, count(*) AS rows, count(DISTINCT source) AS files, min(example) AS example,
    max(quarantined_at) AS last_at,
    '/rows/quarantined_rows?table=' || url_encode("table") || '&reason=' || url_encode(reason) AS link
FROM (SELECT table_name AS "table", {{ shape }} AS reason, reason AS example, source, quarantined_at FROM quarantine)
GROUP BY "table", reason

-- question: quarantined_rows
-- title: Rows that did not parse, the newest first
-- order: quarantined_at DESC, source, line_number
-- options: table, reason
SELECT quarantined_at, table_name AS "table", reason, source, line_number, row_text FROM quarantine
WHERE (getvariable('table') IS NULL OR table_name = getvariable('table'))
    AND (getvariable('reason') IS NULL OR getvariable('reason') IN (reason, {{ shape }}))

-- question: test_results
-- title: Tests of the last build, those that failed first
-- order: list_position(['fail', 'warn', 'pass'], status), failures DESC, name
-- options: test_status
-- about: Of the last build, published or not. Failures are rows that break the rule; an error stops a build, a warning
--     does not.
SELECT name, status, severity, "table", "column", failures, seconds, build_id FROM test_results
WHERE (getvariable('status') IS NULL OR status = getvariable('status'))

-- question: steps
-- title: Steps that gpulake ran, those that failed first
-- order: status <> 'failed', started_at DESC, step, run_id, detail
-- options: step_status
-- about: Steps of one command share a run. In UTC.
SELECT started_at, step, status, seconds, run_id, detail::VARCHAR AS detail FROM runs
WHERE (getvariable('status') IS NULL OR status = getvariable('status'))

-- question: steps_by_command
-- title: How long commands took, by step
-- order: command_at, run_id, step
-- about: Seconds of each step of the last 50 commands, by their start.
WITH commands AS (
    SELECT run_id, min(started_at) AS command_at FROM runs GROUP BY run_id ORDER BY command_at DESC, run_id LIMIT 50
)
SELECT command_at, run_id, step, sum(seconds) AS seconds, bool_or(status = 'failed') AS has_failed
FROM runs JOIN commands USING (run_id) GROUP BY command_at, run_id, step
