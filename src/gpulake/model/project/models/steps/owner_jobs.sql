-- The job behind the name that telemetry has for the holder of a GPU; for a pod, its instance as well, since several
-- pods of a job may share a machine. A node knows a task of an array, or a part of a heterogeneous job, by its raw
-- number only. A pod is named by its uid, or by its namespace and name, which a later pod may bear: a row for each.

select
    cluster_id,
    'slurm' as owner_kind,
    raw_job_id as owner_id,
    {{ surrogate_key(['cluster_id', 'max(own_job_id)']) }} as job_key,
    cast(null as bigint) as instance_key
from {{ ref('slurm_rows') }}
where step is null and not is_rest and raw_job_id is not null
group by cluster_id, raw_job_id

{% for name in ['pod_uid', "group_id || '/' || pod_name"] -%}
    union

    select
        cluster_id,
        'pod' as owner_kind,
        {{ name }} as owner_id,
        job_key,
        instance_key
    from {{ ref('silver_pod_runs') }}
{% endfor %}
