{# What people add: saved views, annotations; and what charts show of them. #}

-- question: saved_views
-- title: Saved views
-- order: title, view_id
SELECT title, address AS link, changed_by AS saved_by, changed_at AS saved_at, view_id
FROM saved_views WHERE NOT coalesce(is_removed, false)

-- question: annotations
-- title: Annotations
-- order: starts_at DESC, annotation_id
-- about: Shown on all charts over time.
SELECT starts_at, ends_at, kind, text, nullif(cluster_id, '') AS cluster_id, changed_by AS added_by, annotation_id
FROM annotations WHERE NOT coalesce(is_removed, false) AND {days:starts_at,ends_at}
    AND (coalesce(cluster_id, '') = '' OR {cluster})

-- question: marks
-- title: What charts show beside their lines
-- order: starts_at, text
-- about: Annotations, and maintenance windows that are not weekly, of the cluster or of all.
SELECT kind, text, starts_at, ends_at, nullif(cluster_id, '') AS cluster_id FROM annotations
WHERE NOT coalesce(is_removed, false) AND {days:starts_at,ends_at}
    AND (coalesce(cluster_id, '') = '' OR {cluster})
UNION ALL
SELECT 'maintenance', concat_ws(': ', 'maintenance of ' || node, nullif(note, '')),
    coalesce(starts_at, changed_at) AS begins_at, ends_at, NULL
FROM maintenance_windows
WHERE NOT coalesce(is_removed, false) AND coalesce(weekdays, '') = '' AND coalesce(hours, '') = ''
    AND {days:begins_at,ends_at} [[cluster AND getvariable('cluster') GLOB cluster]]
