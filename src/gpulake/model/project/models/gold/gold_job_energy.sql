-- Energy is the driver's counter if there is one, else power times time. Energy without an owner has rows too.

with samples as (

    select * from {{ ref('silver_gpu_samples') }}

),

jobs as (

    select * from {{ ref('silver_jobs') }}

),

owner_jobs as (

    -- The name of a pod may be that of a later one: then nothing says whose energy it is.
    select
        cluster_id,
        owner_kind,
        owner_id,
        case when count(distinct job_key) = 1 then max(job_key) end as job_key
    from {{ ref('owner_jobs') }}
    group by cluster_id, owner_kind, owner_id

),

owned as (

    select
        cluster_id,
        owner_kind,
        coalesce(owner_id, owner_kind) as owner_id,
        count(distinct gpu_id) as gpus,
        sum(covers_seconds) / 3600 as gpu_hours,
        sum(case when energy_joules is not null then covers_seconds else 0 end) / 3600 as measured_gpu_hours,
        sum(energy_joules) as energy_joules,
        coalesce(sum(case when energy_basis = 'counter' then energy_joules end), 0) as counted_energy_joules,
        min(sampled_at) as first_sampled_at,
        max(sampled_at) as last_sampled_at
    from samples
    group by cluster_id, owner_kind, coalesce(owner_id, owner_kind)

    union all

    -- Counters grow during gaps between samples; the holder in that time is unknown.
    select
        cluster_id,
        'unseen' as owner_kind,
        'unseen' as owner_id,
        count(distinct gpu_id) as gpus,
        0 as gpu_hours,
        0 as measured_gpu_hours,
        sum(unseen_energy_joules) as energy_joules,
        sum(unseen_energy_joules) as counted_energy_joules,
        min(sampled_at) as first_sampled_at,
        max(sampled_at) as last_sampled_at
    from samples
    where unseen_energy_joules > 0
    group by cluster_id

),

final as (

    select
        owned.cluster_id,
        owned.owner_kind,
        owned.owner_id,
        jobs.job_key,
        jobs.user_id,
        jobs.account_id,
        jobs.status,
        owned.gpus,
        owned.gpu_hours,
        owned.measured_gpu_hours,
        owned.energy_joules,
        owned.energy_joules / 3600000 as energy_kilowatt_hours,
        owned.counted_energy_joules / nullif(owned.energy_joules, 0) as counted_ratio,
        owned.energy_joules / nullif(owned.measured_gpu_hours * 3600, 0) as mean_gpu_watts,
        owned.first_sampled_at,
        owned.last_sampled_at
    from owned
    left join owner_jobs
        on
            owned.cluster_id = owner_jobs.cluster_id
            and owned.owner_kind = owner_jobs.owner_kind
            and owned.owner_id = owner_jobs.owner_id
    left join jobs on owner_jobs.job_key = jobs.job_key

)

select * from final
order by cluster_id, owner_kind, owner_id
