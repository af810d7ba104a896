-- Energy is the driver's counter if there is one, else power times time. Energy without an owner has rows too.

with samples as (

    select * from "lake"."main"."silver_gpu_samples"

),

jobs as (

    select * from "lake"."main"."silver_jobs"

),

owner_jobs as (

    -- The name of a pod may be that of a later one: then nothing says whose energy it is.
    select
        cluster_id,
        owner_kind,
        owner_id,
        case when count(distinct job_key) = 1 then max(job_key) end as job_key
    from __dbt__cte__owner_jobs
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

-- test: accepted_values_gold_job_energy_owner_kind__slurm__pod__container__trace__several__unattributed__nobody__unknown__unseen(owner_kind) error
where owner_kind not in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody', 'unknown', 'unseen')

-- test: all_energy_has_an_owner() error
select cluster_id
from (
    select cluster_id, energy_joules as here, 0e0 as there from "lake"."main"."gold_job_energy"
    union all
    select cluster_id, 0e0 as here, energy_joules as there from (select cluster_id, coalesce(energy_joules, 0) + unseen_energy_joules as energy_joules from "lake"."main"."silver_gpu_samples")
) as both_sides
group by cluster_id
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: an_owner_has_its_energy_once() error
select cluster_id, owner_kind, owner_id
from "lake"."main"."gold_job_energy"
group by cluster_id, owner_kind, owner_id
having count(*) > 1

-- test: in_range_gold_job_energy_0__1__counted_ratio(counted_ratio) error
where false
    or counted_ratio < 0
    or counted_ratio > 1

-- test: in_range_gold_job_energy_0__energy_joules(energy_joules) error
where false
    or energy_joules < 0

-- test: in_range_gold_job_energy_0__energy_kilowatt_hours(energy_kilowatt_hours) error
where false
    or energy_kilowatt_hours < 0

-- test: in_range_gold_job_energy_0__gpu_hours(gpu_hours) error
where false
    or gpu_hours < 0

-- test: in_range_gold_job_energy_0__mean_gpu_watts(mean_gpu_watts) error
where false
    or mean_gpu_watts < 0

-- test: in_range_gold_job_energy_0__measured_gpu_hours(measured_gpu_hours) error
where false
    or measured_gpu_hours < 0

-- test: in_range_gold_job_energy_1__gpus(gpus) error
where false
    or gpus < 1

-- test: not_null_gold_job_energy_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_job_energy_first_sampled_at(first_sampled_at) error
where first_sampled_at is null

-- test: not_null_gold_job_energy_gpu_hours(gpu_hours) error
where gpu_hours is null

-- test: not_null_gold_job_energy_gpus(gpus) error
where gpus is null

-- test: not_null_gold_job_energy_last_sampled_at(last_sampled_at) error
where last_sampled_at is null

-- test: not_null_gold_job_energy_measured_gpu_hours(measured_gpu_hours) error
where measured_gpu_hours is null

-- test: not_null_gold_job_energy_owner_id(owner_id) error
where owner_id is null

-- test: not_null_gold_job_energy_owner_kind(owner_kind) error
where owner_kind is null
