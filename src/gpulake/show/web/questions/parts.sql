{# SQL that several themes share; each imports what it uses. #}
{% macro sums(names, suffix="") %}
{% for name in names %}sum({{ name }}_gpu_hours) AS {{ name }}{{ suffix }}{{ ", " if not loop.last }}{% endfor %}
{% endmacro %}
{# The given filters, as the query of a link to another page. #}
{% set given %}
concat_ws(
    '&', 'from=' || getvariable('from'), 'to=' || getvariable('to'),
    'cluster=' || url_encode(getvariable('cluster')::VARCHAR),
    'gpu_type=' || url_encode(getvariable('gpu_type')::VARCHAR)
)
{% endset %}
{% set sensed %}used_gpu_hours + under_used_gpu_hours + idle_gpu_hours{% endset %}
{% set held %}{{ sensed }} + lost_gpu_hours + unobserved_gpu_hours{% endset %}
{% set lost_at_most %}
Lost (failed, timed out, interrupted) is an upper bound; the lower bound is what came after a known checkpoint.
--     Inferred: based on inferred times.
{%- endset %}

{# A range in words; one number if both ends read the same. #}
{% macro range_words(least, most, form) %}
{% set low = "format('" ~ form ~ "', " ~ least ~ ")" %}
{% set high = "format('" ~ form ~ "', " ~ most ~ ")" %}
CASE WHEN {{ low }} = {{ high }} THEN {{ high }} ELSE {{ low }} || ' to ' || {{ high }} END
{%- endmacro %}
{# A range in place of a tile's value; NULL if both ends read the same. #}
{% macro only_range(least, most, form) %}
nullif({{ range_words(least, most, form) }}, format('{{ form }}', {{ most }}))
{%- endmacro %}
{% macro inferred_words(part, whole) %}
CASE WHEN {{ part }} > 0 THEN format(', {:.0f}% inferred', 100 * {{ part }} / {{ whole }}) ELSE '' END
{%- endmacro %}
{# As a share of what sensors measured, from columns named used, sensed, held, unobserved, lost and lost_at_least. #}
{% set used_at_most %}100 * (used + unobserved + lost - lost_at_least) / held{% endset %}
{% set used_words %}
CASE WHEN sensed > 0 THEN
        format('of the {:.0f}% of held that sensors measured; ', 100 * sensed / held)
        || {{ range_words("100 * used / held", used_at_most, "{:.0f}%") }} || ' of held'
    ELSE 'no sensor measured what was held' END
{% endset %}
{# From columns named held, capacity and unknown_demand: 0 held means nothing where the demand is not known. #}
{% set is_held_known %}(held > 0 OR unknown_demand = 0){% endset %}
{% set held_ratio %}CASE WHEN {{ is_held_known }} THEN held / nullif(capacity, 0) END{% endset %}
{% set held_words %}
CASE WHEN {{ is_held_known }} THEN format('{:,.0f} GPU-hours, of capacity', held)
    ELSE 'not known how much of capacity' END
{% endset %}
{% set lost_words %}
{{ range_words("lost_at_least", "lost", "{:,.0f}") }} || ' GPU-hours'
    || {{ inferred_words("inferred_lost", "lost") }}
{% endset %}

{# Of the GPU model, from a row of silver_gpu_types under the name types; NULL if it is not known. #}
{% set model_words %}
CASE WHEN types.gpu_model IS NOT NULL THEN concat_ws(
    ', ', CASE WHEN types.gpu_model != types.gpu_type THEN types.gpu_model END,
    format('{:.0f} GiB', types.memory_bytes / 1073741824), format('{:.0f} W', types.busy_watts),
    format('{:.0f} TFLOPS FP16', types.fp16_teraflops)
) END
{% endset %}

{# In UTC. A diagnosis may have no time of its own: then the incident was seen when it was opened. #}
{% set dated %}
SELECT *, coalesce(began_at, opened_at, changed_at) AS began, greatest(last_seen_at, began) AS ended,
    began::DATE AS first_day, greatest((ended - INTERVAL 1 MICROSECOND)::DATE, first_day) AS last_day
FROM incidents
{% endset %}
{# The newest incident of each kind and subject, and its state: findings carry it. #}
{% set opened %}
SELECT kind, subject, arg_max(incident_id, changed_at) AS incident_id, arg_max(state, changed_at) AS incident_state
FROM incidents WHERE coalesce(merged_into, '') = '' GROUP BY kind, subject
{% endset %}
{# The page of its subject. The subject of a finding without a machine or a job is a day or a user. #}
{% set in_cluster %}coalesce('&cluster=' || url_encode(cluster_id), ''){% endset %}
{% set subject_link %}
CASE
    WHEN job_id <> '' THEN '/job?job=' || url_encode(job_id) || {{ in_cluster }}
    WHEN node <> '' THEN '/machine?machine=' || url_encode(node) || {{ in_cluster }}
    WHEN regexp_full_match(subject, '\d{4}-\d\d-\d\d') THEN '/jobs?from=' || subject || '&to=' || subject
    WHEN kind IN {{ kinds_about("user") }} THEN '/user?user=' || url_encode(subject)
END
{% endset %}
