-- Attempts of sources that do not say where a job ran: one for each job, on all machines of its cluster.

with runs as (

    {% for name in pool_sources() -%}
        select * from {{ ref(name ~ '_runs') }}
        {%- if not loop.last %}
            union all
        {% endif %}
    {%- endfor %}

)

select
    {{ surrogate_key(['cluster_id', 'job_id']) }} as job_key,
    {{ surrogate_key(['cluster_id', 'job_id', "'job'"]) }} as task_key,
    {{ surrogate_key(['cluster_id', 'job_id', "'job'", '1']) }} as instance_key,
    cast(null as bigint) as worker_key,
    {{ pool_key('cluster_id') }} as machine_key,
    cluster_id,
    'job' as task_name,
    status,
    started_at,
    case when started_at is not null then ended_at end as ended_at,
    gpus,
    gpu_type
from runs
where {{ has_begun_or_may('started_at', 'status') }}
