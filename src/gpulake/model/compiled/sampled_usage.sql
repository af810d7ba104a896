-- What attempts used by the samples of the GPUs of their machine. A GPU is an attempt's if its samples name the job, or
-- name nobody and the scheduler says that the attempt holds it; where these are fewer than it holds and no other
-- attempt holds GPUs of the machine, the busiest that are nobody else's are its own, too. Otherwise a GPU beside other
-- attempts cannot be assigned: then nothing is known.

with samples as (

    select
        samples.machine_key,
        samples.gpu_id,
        case when samples.parent_gpu_id is null then samples.gpu_index end as gpu_index,
        owner_jobs.job_key,
        owner_jobs.instance_key,
        coalesce(samples.owner_kind in ('nobody', 'unknown', 'unattributed'), true) as is_unnamed,
        (epoch_us(samples.sampled_at) / 1e6) as at_seconds,
        samples.covers_seconds,
        samples.busy_ratio,
        samples.memory_used_bytes
    from "lake"."main"."silver_gpu_samples" as samples
    left join __dbt__cte__owner_jobs as owner_jobs
        on
            samples.cluster_id = owner_jobs.cluster_id
            and samples.owner_kind = owner_jobs.owner_kind
            and samples.owner_id = owner_jobs.owner_id
    where
        samples.covers_seconds > 0
        and samples.busy_ratio is not null
        -- A board that is cut into MIG instances is what they are.
        and samples.gpu_id not in (
            select parts.parent_gpu_id
            from "lake"."main"."silver_gpu_samples" as parts
            where parts.parent_gpu_id is not null
        )

),

ends as (

    select
        machine_key,
        max(at_seconds + covers_seconds) as seen_until_seconds
    from samples
    group by machine_key

),

attempts as (

    select
        instances.worker_key,
        instances.job_key,
        instances.instance_key,
        instances.machine_key,
        instances.gpus,
        (epoch_us(instances.started_at) / 1e6) as begin_seconds,
        coalesce((epoch_us(instances.ended_at) / 1e6), ends.seen_until_seconds) as end_seconds
    from "lake"."main"."silver_instances" as instances
    inner join ends on instances.machine_key = ends.machine_key
    where instances.gpus > 0 and instances.started_at is not null

),

neighbours as (

    select
        *,
        coalesce(max(end_seconds) over earlier <= begin_seconds, true)
        and coalesce(min(begin_seconds) over following >= end_seconds, true) as is_alone
    from attempts
    where end_seconds > begin_seconds
    window
        earlier as (
            partition by machine_key order by begin_seconds, worker_key
            rows between unbounded preceding and 1 preceding
        ),
        following as (
            partition by machine_key order by begin_seconds, worker_key
            rows between 1 following and unbounded following
        )

),

-- Samples meet attempts by machine and hour: few pairs, where a comparison of times alone would look at all of them.
hours as (

    select
        *,
        unnest(range(cast(floor((begin_seconds + 0) / 3600) as bigint), cast(floor((end_seconds + 0) / 3600) as bigint) + 1)) as hour_number
    from neighbours

),

held_hours as (

    select
        hours.*,
        held_gpus.gpu_index
    from hours
    inner join "lake"."main"."silver_held_gpus" as held_gpus
        on hours.worker_key = held_gpus.worker_key and hours.machine_key = held_gpus.machine_key

),

pairs as (

    select
        hours.worker_key,
        hours.gpus,
        hours.is_alone,
        samples.gpu_id,
        coalesce(samples.job_key = hours.job_key, held_hours.worker_key is not null) as is_named,
        coalesce(samples.instance_key = hours.instance_key, held_hours.worker_key is not null) as is_own,
        least(samples.covers_seconds, hours.end_seconds - samples.at_seconds) as seconds,
        samples.busy_ratio,
        samples.memory_used_bytes
    from samples
    inner join hours
        on
            samples.machine_key = hours.machine_key
            and cast(floor((samples.at_seconds + 0) / 3600) as bigint) = hours.hour_number
    left join held_hours
        on
            samples.is_unnamed
            and samples.machine_key = held_hours.machine_key
            and samples.gpu_index = held_hours.gpu_index
            and cast(floor((samples.at_seconds + 0) / 3600) as bigint) = held_hours.hour_number
            and samples.at_seconds >= held_hours.begin_seconds
            and samples.at_seconds < held_hours.end_seconds
    where
        samples.at_seconds >= hours.begin_seconds
        and samples.at_seconds < hours.end_seconds
        and (
            (samples.is_unnamed and coalesce(held_hours.worker_key, hours.worker_key) = hours.worker_key)
            or (
                samples.job_key = hours.job_key
                and coalesce(samples.instance_key = hours.instance_key, samples.instance_key is null)
            )
        )

),

-- A GPU that is the job's for a part of the time only was held, and not used, for the rest of it.
by_gpu as (

    select
        worker_key,
        gpu_id,
        max(gpus) as gpus,
        bool_or(is_alone) as is_alone,
        bool_or(is_named) as is_named,
        bool_or(is_own) as is_own,
        sum(seconds) as seconds,
        sum(case when is_named or is_alone then busy_ratio * seconds else 0 end) as busy_seconds,
        sum(memory_used_bytes * seconds) / sum(case when memory_used_bytes is not null then seconds end)
            as mean_memory_bytes,
        max(memory_used_bytes) as peak_memory_bytes
    from pairs
    group by worker_key, gpu_id

),

ranked as (

    select
        *,
        row_number() over (
            partition by worker_key order by is_named desc, busy_seconds desc, gpu_id asc
        ) as position,
        bool_or(is_named) over (partition by worker_key) as has_name
    from by_gpu

),

chosen as (

    select * from ranked
    -- All that names the pod itself is its own: of a GPU it may hold several MIG instances.
    where (position <= ceil(gpus) and (is_alone or has_name)) or is_own

)

select
    worker_key,
    cast(null as double) as used_cores,
    max(gpus) * sum(busy_seconds) / sum(seconds) as used_gpus,
    cast(null as bigint) as mean_memory_bytes,
    cast(null as bigint) as peak_memory_bytes,
    cast(sum(mean_memory_bytes) as bigint) as mean_gpu_memory_bytes,
    cast(sum(peak_memory_bytes) as bigint) as peak_gpu_memory_bytes,
    cast(null as double) as network_read_bytes,
    cast(null as double) as network_written_bytes
from chosen
group by worker_key
