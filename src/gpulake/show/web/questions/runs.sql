{# Collected runs: their nodes, links, processes, GPUs and requests. #}
{% set most_points = 500 %}  {# of a figure, all its lines together #}
{% set most_depth = 100 %}  {# of spans below each other #}
{# Samples name their node, not their run. #}
{% set nodes %}
SELECT DISTINCT node_id FROM bronze_nodes WHERE coalesce(nullif(run_id, ''), node_id) = getvariable('run')
{% endset %}
{% set failed %}CASE WHEN method = 'CLI' THEN status_code <> 0 ELSE status_code >= 400 END{% endset %}
{# Samples of a run's nodes, averaged over intervals: few enough points for a figure at any sampling rate. #}
{% macro thinned(table, subject, extra="") %}
WITH seen AS MATERIALIZED (
    SELECT * FROM {{ table }} WHERE node_id IN ({{ nodes }}) AND {days:sampled_at}
),
shape AS (
    SELECT min(sampled_at) AS begins_at, greatest(epoch(max(sampled_at) - min(sampled_at)), 1)
        / greatest({{ most_points }} // greatest(count(DISTINCT ({{ subject }})), 1) - 1, 1) AS width FROM seen
)
SELECT node_id AS node, {{ extra }}
    begins_at + to_seconds(width * floor(epoch(sampled_at - begins_at) / width)) AS sampled_from,
    {{ caller() }}, count(*) AS samples
FROM seen CROSS JOIN shape GROUP BY ALL
{% endmacro %}

-- question: runs_collected
-- title: Collected runs
-- order: last_sampled_at DESC NULLS LAST, run_name
-- about: What gpulake collect recorded. Samples are counted by node: where a node is in several runs, filter by days.
--     The days filter what is counted: every run is listed.
WITH named AS (
    SELECT DISTINCT coalesce(nullif(run_id, ''), node_id) AS run_name, node_id FROM bronze_nodes
),
hosts AS (
    SELECT node_id, min(sampled_at) AS first_sampled_at, max(sampled_at) AS last_sampled_at, count(*) AS samples
    FROM silver_host_samples WHERE {days:sampled_at} GROUP BY node_id
),
requests AS (SELECT node_id, count(*) AS spans FROM silver_invocations WHERE {days:ended_at} GROUP BY node_id),
events AS (SELECT node_id, count(*) AS events FROM silver_node_events WHERE {days:happened_at} GROUP BY node_id)
SELECT run_name, count(*) AS nodes, sum(n.gpus)::BIGINT AS gpus,
    string_agg(DISTINCT n.stage, ', ' ORDER BY n.stage) AS stages, min(first_sampled_at) AS first_sampled_at,
    max(last_sampled_at) AS last_sampled_at,
    coalesce(sum(samples), 0)::BIGINT AS host_samples, coalesce(sum(spans), 0)::BIGINT AS spans,
    coalesce(sum(events), 0)::BIGINT AS events
FROM named LEFT JOIN silver_nodes n USING (node_id) LEFT JOIN hosts USING (node_id) LEFT JOIN requests USING (node_id)
LEFT JOIN events USING (node_id) GROUP BY run_name

-- question: run_nodes
-- title: Nodes of a run
-- order: node
-- options: run
-- about: Busy is weighted by the time that each sample covers. The days filter samples, not nodes.
WITH seen AS (
    SELECT node_id, sum(cpu_busy_ratio * covers_seconds)
        / nullif(sum(covers_seconds) FILTER (cpu_busy_ratio IS NOT NULL), 0) AS cpu_busy_ratio,
        max(memory_total_bytes - memory_available_bytes) AS peak_memory_bytes,
        min(sampled_at) AS first_sampled_at, max(sampled_at) AS last_sampled_at, count(*) AS samples
    FROM silver_host_samples WHERE node_id IN ({{ nodes }}) AND {days:sampled_at} GROUP BY node_id
)
SELECT n.node_id AS node, n.cluster_id, n.stage, n.cores, n.memory_bytes, n.cpu_model, n.gpus, n.gpu_name,
    seen.cpu_busy_ratio, seen.peak_memory_bytes, seen.first_sampled_at, seen.last_sampled_at, seen.samples
FROM silver_nodes n LEFT JOIN seen USING (node_id) WHERE n.node_id IN ({{ nodes }})

-- question: run_hosts
-- title: CPU and memory of a run's nodes
-- order: node, sampled_from
-- options: run
-- about: Mean share of all cores that is busy, and the most memory in use, of each interval.
{% call thinned("silver_host_samples", "node_id") %}
    avg(cpu_busy_ratio) AS cpu_busy_ratio,
    max(memory_total_bytes - memory_available_bytes) AS memory_used_bytes,
    max(load_1m) AS load_1m
{%- endcall %}

-- question: run_links
-- title: Network of a run's nodes
-- order: node, interface, sampled_from
-- options: run
-- about: Bytes a second by interface, the mean of each interval.
{% call thinned("silver_link_samples", "node_id, interface", "interface, ") %}
    avg(rx_bytes_per_second) AS rx_bytes_per_second,
    avg(tx_bytes_per_second) AS tx_bytes_per_second,
    max(rtt_seconds) AS rtt_seconds,
    max(rx_errors_total + coalesce(tx_errors_total, 0)) AS errors_total
{%- endcall %}

-- question: run_gpus
-- title: GPUs of a run's nodes
-- order: node, gpu_index, gpu_id, sampled_from
-- options: run
-- about: Mean busy share and power, highest temperature and memory, of each interval.
{% call thinned("silver_gpu_samples", "gpu_id", "gpu_index, gpu_id, ") %}
    avg(busy_ratio) AS busy_ratio,
    max(temperature_celsius) AS temperature_celsius,
    avg(power_watts) AS power_watts,
    max(memory_used_bytes) AS memory_used_bytes
{%- endcall %}

-- question: run_processes
-- title: Processes of a run's nodes
-- order: cpu_seconds DESC NULLS LAST, peak_rss_bytes DESC NULLS LAST, node, process_id
-- options: run
-- about: Those that used most CPU first; cores are those in use while it was sampled.
SELECT node_id AS node, any_value(command) AS command, any_value(pid) AS pid, any_value(owner_kind) AS owner_kind,
    any_value(owner_id) AS owner_id, sum(cpu_seconds) AS cpu_seconds,
    sum(cpu_seconds) / nullif(sum(interval_seconds), 0) AS mean_cores, max(cpu_cores) AS peak_cores,
    max(rss_bytes) AS peak_rss_bytes, max(threads) AS threads, count(*) AS samples, process_id
FROM silver_process_samples WHERE node_id IN ({{ nodes }}) AND {days:sampled_at} GROUP BY node_id, process_id

-- question: run_events
-- title: Events of a run's nodes
-- order: "at" DESC, event_key
-- options: run
SELECT happened_at AS at, node_id || ': ' || kind || coalesce(' ' || code, '') || coalesce(' of ' || subject, '')
    AS headline, message AS detail, CASE WHEN kind IN ('xid', 'sxid', 'gpu_lost', 'gpu_unresponsive', 'oom_kill')
    THEN 'critical' ELSE 'warning' END AS level, '/machine?machine=' || url_encode(node_id) AS link, event_key
FROM silver_node_events WHERE node_id IN ({{ nodes }}) AND {days:happened_at}

-- question: run_traces
-- title: Traces of a run
-- order: response_seconds DESC NULLS LAST, trace_id
-- options: run
-- about: The longest first: from the first start to the last end of its spans.
WITH spans AS (
    SELECT *, coalesce(trace_id, '') AS trace, coalesce(started_at, queued_at, ended_at) AS begins_at,
        {{ failed }} AS is_failed
    FROM silver_invocations WHERE node_id IN ({{ nodes }}) AND {days:ended_at}
)
SELECT trace AS trace_id, min(begins_at) AS at, coalesce(nullif(trace, ''), 'unnamed') AS headline,
    format('{:.3g} s, spans: {}, nodes: {}', epoch(max(ended_at) - min(begins_at)), count(*),
        count(DISTINCT node_id)) || CASE WHEN count(*) FILTER (is_failed) > 0
        THEN format(', failed: {}', count(*) FILTER (is_failed)) ELSE '' END AS detail,
    epoch(max(ended_at) - min(begins_at)) AS response_seconds, count(*) AS spans,
    CASE WHEN count(*) FILTER (is_failed) > 0 THEN 'critical' ELSE '' END AS level,
    '/run?run=' || url_encode(getvariable('run')) || '&trace=' || url_encode(trace) || '#waterfall' AS link
FROM spans GROUP BY trace

-- question: run_spans
-- title: Spans of a trace
-- order: place
-- options: run, trace, span
-- about: Each span below its parent. A span whose parent is not known has none.
SELECT * FROM (
WITH RECURSIVE spans AS MATERIALIZED (
    SELECT *, coalesce(trace_id, '') AS trace, coalesce(started_at, queued_at, ended_at) AS begins_at
    FROM silver_invocations WHERE node_id IN ({{ nodes }}) AND {days:ended_at}
),
chosen AS (
    SELECT trace, min(begins_at) AS begins_at, greatest(epoch(max(ended_at) - min(begins_at)), 0.000001) AS seconds
    FROM spans WHERE getvariable('trace') IS NULL OR trace = getvariable('trace')
    GROUP BY trace ORDER BY seconds DESC, trace LIMIT 1
),
parents AS (
    SELECT span_id, min(invocation_key) AS parent_key FROM spans SEMI JOIN chosen USING (trace)
    WHERE span_id IS NOT NULL GROUP BY span_id
),
spans_of_trace AS MATERIALIZED (
    SELECT s.*, p.parent_key, printf('%020d', epoch_us(s.begins_at)) || s.invocation_key AS step
    FROM spans s SEMI JOIN chosen USING (trace)
    LEFT JOIN parents p ON s.parent_span_id = p.span_id
),
-- Each span has one parent: what the roots reach is a tree. A cycle is reached from no root.
tree AS (
    SELECT invocation_key, 0 AS depth, [step] AS steps FROM spans_of_trace WHERE parent_key IS NULL
    UNION ALL
    SELECT o.invocation_key, t.depth + 1, list_append(t.steps, o.step)
    FROM tree t JOIN spans_of_trace o ON o.parent_key = t.invocation_key WHERE t.depth < {{ most_depth }}
)
SELECT row_number() OVER (ORDER BY t.steps IS NULL, t.steps, o.step) AS place, coalesce(t.depth, 0) AS depth,
    o.module_id, o.method, o.path, o.node_id AS node, o.status_code, {{ failed }} AS is_failed,
    o.begins_at AS started_at, o.response_seconds, o.queue_seconds, o.service_seconds, o.cpu_seconds,
    o.received_bytes, o.sent_bytes, o.pid, o.state, o.trace AS trace_id, o.span_id, o.parent_span_id,
    epoch(o.begins_at - c.begins_at) / c.seconds AS begin_ratio,
    greatest(epoch(o.ended_at - o.begins_at), 0) / c.seconds AS width_ratio
FROM spans_of_trace o CROSS JOIN chosen c LEFT JOIN tree t USING (invocation_key)
) WHERE getvariable('span') IS NULL OR span_id = getvariable('span')
