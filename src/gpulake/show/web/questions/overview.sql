{# The overview: key numbers, findings, and utilisation against what was expected. #}
{% from "parts.sql" import dated, given, held, held_ratio, held_words, lost_words, only_range, opened, sensed, used_words %}

-- question: key_numbers
-- title: Key numbers
-- order: place
-- about: Used is a share of what sensors measured, the others of what was held, unless they say otherwise. Red: the
--     larger part of the waste, idle or lost. Lost is a range where checkpoints are not known. Jobs count on the day
--     they ended, on any type of GPU; unresolved incidents on each day they were seen.
{# One row for each number, in the order of the page. #}
WITH ledger AS (
    SELECT
        sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) AS used, sum(idle_gpu_hours) AS idle,
        sum(under_used_gpu_hours) AS under_used, sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved,
        sum(failed_gpu_hours) AS failed, sum(timed_out_gpu_hours) AS timed_out,
        sum(interrupted_gpu_hours) AS interrupted, sum(unknown_gpu_hours) AS unknown,
        sum(lost_at_least_gpu_hours) AS lost_at_least, sum(inferred_lost_gpu_hours) AS inferred_lost,
        sum({{ sensed }}) AS sensed, sum({{ held }}) AS held, count(DISTINCT dt) AS days
    FROM gold_ledger_hourly WHERE {days} AND {cluster} AND {gpu_type}
),
-- Clusters may be observed at different times: up to three are named with theirs.
observed AS (
    SELECT
        CASE WHEN count(*) <= 3 THEN ', observed ' || string_agg(
            format('{}{} to {} UTC', CASE WHEN is_alone THEN '' ELSE cluster_id || ' ' END, begins, ends), '; '
            ORDER BY cluster_id
        ) ELSE format(' of {} clusters', count(*)) END AS time,
        max(unknown_demand_ratio) AS unknown_demand
    FROM (
        SELECT
            cluster_id, unknown_demand_ratio, count(*) OVER () = 1 AS is_alone,
            strftime(observed_from AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') AS begins,
            strftime(observed_until AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M') AS ends
        FROM silver_clusters WHERE {cluster}
    )
),
ended AS (
    SELECT coalesce(sum(ended_jobs), 0)::DOUBLE AS jobs, sum(failed_jobs)::DOUBLE AS failed
    FROM gold_jobs_daily WHERE {days} AND {cluster}
),
opened AS (
    SELECT count(*) AS incidents, count(*) FILTER (severity = 'critical') AS critical
    FROM ({{ dated }}) WHERE state != 'resolved' AND {days:began,ended} AND {cluster}
),
tiles AS (
    SELECT
        1 AS place, 'capacity' AS label, capacity AS value, 'gpu_hours' AS unit, '' AS words,
        format('GPU-hours in {:d} day{}{}', days, CASE WHEN days = 1 THEN '' ELSE 's' END, time) AS note,
        '' AS level, '/rows/observed' AS target, '' AS more
    FROM ledger CROSS JOIN observed
    UNION ALL
    SELECT 2, 'held', {{ held_ratio }}, 'held_ratio', '',
        {{ held_words }} || time, '', '/rows/ledger_by_day', ''
    FROM ledger CROSS JOIN observed
    UNION ALL
    SELECT 3, 'used', used / nullif(sensed, 0), 'used_ratio', '',
        CASE WHEN sensed > 0 THEN format('{:,.0f} GPU-hours, ', used) ELSE '' END || {{ used_words }},
        '', '/rows/efficiency_by_user',
        'sort=-used_gpu_hours'
    FROM ledger
    UNION ALL
    SELECT 4, 'under-used', under_used / nullif(held, 0), 'under_used_ratio', '',
        format('{:,.0f} GPU-hours, not counted as wasted', under_used), '', '/rows/efficiency_of_jobs',
        'by=under_used'
    FROM ledger
    UNION ALL
    SELECT 5, 'idle', idle / nullif(held, 0), 'idle_ratio', '', format('{:,.0f} GPU-hours', idle),
        CASE WHEN idle > 0 AND idle >= lost THEN 'bad' ELSE '' END, '/rows/efficiency_of_jobs', 'by=idle'
    FROM ledger
    UNION ALL
    SELECT 6, 'lost', lost / nullif(held, 0), 'lost_ratio',
        {{ only_range("100 * lost_at_least / nullif(held, 0)", "100 * lost / nullif(held, 0)", "{:.1f}%") }},
        {{ lost_words }} || format(
            ': {:,.0f} failed, {:,.0f} timed out, {:,.0f} interrupted', failed, timed_out, interrupted
        ),
        CASE WHEN lost > idle THEN 'bad' ELSE '' END, '/rows/efficiency_of_jobs', 'by=lost'
    FROM ledger
    UNION ALL
    SELECT 7, 'unobserved', unobserved / nullif(held, 0), 'unobserved_ratio', '',
        format('{:,.0f} GPU-hours', unobserved), '', '/rows/efficiency_of_jobs',
        'by=unobserved'
    FROM ledger
    UNION ALL
    SELECT 8, 'unknown', unknown / nullif(capacity, 0), 'unknown_ratio', '',
        format('{:,.0f} GPU-hours, of capacity: not known whether they were held', unknown) || CASE
            WHEN unknown_demand > 0
                THEN format('; the requests of {:.0f}% of the attempts are not known', 100 * unknown_demand)
            ELSE ''
        END, 'bad', '/rows/ledger_buckets', ''
    FROM ledger CROSS JOIN observed WHERE unknown > 0 OR unknown_demand > 0
    UNION ALL
    SELECT 9, 'jobs ended', jobs, 'count', '',
        CASE WHEN getvariable('gpu_type') IS NULL THEN 'of any outcome' ELSE 'on any type of GPU' END, '',
        '/rows/ended_jobs', ''
    FROM ended
    UNION ALL
    SELECT 10, 'failed', failed / nullif(jobs, 0), 'failed_ratio', '', format('of those: {:,.0f} jobs', failed), '',
        '/rows/ended_jobs', 'status=failed'
    FROM ended
    UNION ALL
    SELECT 11, 'unresolved incidents', incidents, 'count', '', format('{:d} of them critical', critical),
        CASE WHEN incidents > 0 THEN 'bad' ELSE 'good' END, '/incidents', ''
    FROM opened
)
SELECT
    place, label, value, unit, words, note, level,
    target || '?' || concat_ws('&', nullif(more, ''), {{ given }}) AS link
FROM tiles

-- question: found
-- title: Findings
-- order: list_position({{ severities | list }}, level) NULLS LAST, "at" DESC NULLS LAST, rank
-- about: Findings of the last build: the most severe first, then the newest. Findings without a day or a cluster are
--     always shown.
WITH dated AS (
    -- The subject of a ledger finding is the cluster.
    SELECT * REPLACE (coalesce(cluster_id, CASE WHEN kind = 'ledger' THEN subject END) AS cluster_id),
        try_cast(nullif(day, '') AS DATE) AS found_on FROM findings
),
opened AS ({{ opened }})
SELECT
    headline, detail, coalesce(nullif(severity, ''), CASE WHEN kind IN {{ info_kinds }} THEN 'info'
        ELSE 'warning' END) AS level,
    found_on AS "at", kind, subject, value, unit, rank, cluster_id, node, job_id, incident_id, incident_state,
    CASE
        WHEN incident_id IS NOT NULL THEN '/incident?incident=' || url_encode(incident_id)
        WHEN job_id IS NOT NULL THEN '/job?' || concat_ws(
            '&', 'job=' || url_encode(job_id), 'cluster=' || url_encode(cluster_id)
        )
        WHEN node IS NOT NULL THEN '/machine?' || concat_ws(
            '&', 'machine=' || url_encode(node), 'cluster=' || url_encode(cluster_id)
        )
        WHEN kind IN {{ kinds_about("user") }} THEN '/user?user=' || url_encode(subject)
        WHEN kind IN {{ cluster_facts }} THEN '/efficiency?cluster=' || url_encode(subject)
        WHEN found_on IS NOT NULL THEN '/jobs?' || concat_ws(
            '&', 'from=' || found_on, 'to=' || found_on, 'cluster=' || url_encode(cluster_id)
        )
    END AS link
FROM dated
LEFT JOIN opened USING (kind, subject)
WHERE (found_on IS NULL OR {days:found_on}) AND (cluster_id IS NULL OR {cluster})

-- question: utilisation_by_day
-- title: Utilisation by day
-- order: dt
-- about: GPU utilisation is busy over observed GPU-hours. The band is expected from earlier days of that weekday;
--     coverage is the share of capacity that sensors measured. Poorly covered days are not judged.
{# The score of a day is of all clusters together: it is shown only where one cluster has the day. #}
WITH alone AS (
    SELECT dt FROM gold_cluster_util_daily GROUP BY dt HAVING count(*) = 1
),
days AS (
    SELECT
        dt, sum(busy_gpu_hours) / nullif(sum(observed_gpu_hours), 0) AS gpu_util_ratio,
        sum(cpu_util_ratio * observed_gpu_hours) / nullif(sum(observed_gpu_hours), 0) AS cpu_util_ratio,
        sum(observed_gpu_hours) / nullif(sum(capacity_gpu_hours), 0) AS coverage_ratio,
        bool_and(is_poorly_covered) AS is_poorly_covered
    FROM gold_cluster_util_daily WHERE {days} AND {cluster} GROUP BY dt
)
SELECT
    days.dt, days.gpu_util_ratio,
    CASE WHEN alone.dt IS NOT NULL THEN scored.own_expected_ratio END AS own_expected_ratio,
    CASE WHEN alone.dt IS NOT NULL THEN scored.own_low_ratio END AS own_low_ratio,
    CASE WHEN alone.dt IS NOT NULL THEN scored.own_high_ratio END AS own_high_ratio,
    coalesce(scored.own_flag, false) AS own_flag, scored.own_score,
    coalesce(scored.anomaly_flag, 0) = 1 AS anomaly_flag, scored.anomaly_score,
    coalesce(scored.why_they_differ, 'this day has no score') AS why_they_differ, days.coverage_ratio,
    days.is_poorly_covered, days.cpu_util_ratio
FROM days
LEFT JOIN alone ON days.dt = alone.dt
LEFT JOIN gold_cluster_util_daily_scored AS scored ON days.dt = scored.dt
