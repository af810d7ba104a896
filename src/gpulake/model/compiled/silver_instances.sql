with attempts as (

    select * from __dbt__cte__attempts

),

pai_attempts as (

    select * from __dbt__cte__pai_attempts

),

numbered as (

    select * from pai_attempts

    union all

    select
        *,
        row_number() over (
        partition by instance_key
        order by
            coalesce(started_at, ended_at) asc nulls last, ended_at asc nulls last,
            cast(hash(worker_key, machine_key, status) >> 1 as bigint) asc
    ) as attempt
    from attempts

),

final as (

    select
        job_key,
        task_key,
        instance_key,
        worker_key,
        machine_key,
        cluster_id,
        task_name,
        attempt,
        status,
        started_at,
        ended_at,
        (epoch_us(ended_at) / 1e6) - (epoch_us(started_at) / 1e6) as run_seconds,
        gpus,
        gpu_type
    from numbered

)

select * from final

-- test: accepted_values_silver_instances_status__succeeded__failed__node_fail__timeout__interrupted__cancelled__running__waiting__unknown(status) error
where status not in ('succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown')

-- test: an_attempt_has_one_row() error
select instance_key, attempt
from "lake"."main"."silver_instances"
group by instance_key, attempt
having count(*) > 1

-- test: every_attempt_that_landed_is_there() error
with differing as (

    select 1 as is_differing
    from (
        select count(*) as attempts, sum(instance_key) as instances, count(worker_key) as ran, sum(worker_key) as workers
        from "lake"."main"."silver_instances"
        -- A cluster of another source may have one of these names, too.
    where cluster_id in ('pai', 'synth') and (select count(*) from "landed"."main"."bronze_instance_table") > 0
    ) as here
    cross join (
        select
            count(*) as attempts,
            sum(cast(hash(job_name, task_name, inst_name) >> 1 as bigint)) as instances,
            count(worker_name) as ran,
            sum(case when worker_name is not null then cast(hash(worker_name) >> 1 as bigint) end) as workers
        from "landed"."main"."bronze_instance_table"
    ) as there
    cross join (
        select count(*) as instances
        from (
            select instance_key
            from "lake"."main"."silver_instances"
            where instance_key in (select again.instance_key from "lake"."main"."silver_instances" as again where again.attempt != 1)
            group by instance_key
            having min(attempt) != 1
        ) as without_first
    ) as without_first
    where
        here.attempts != there.attempts
        or here.instances is distinct from there.instances
        or here.ran != there.ran
        or here.workers is distinct from there.workers
        or without_first.instances > 0

)

select *
from (
    select
        -- Of an instance, one attempt is the first; a test of its own says that no attempt is there twice.
        count(case when attempt = 1 then 1 end) as instances_here,
        count(distinct worker_key) as workers_here,
        count(*) as rows_here
    from "lake"."main"."silver_instances"
    cross join differing
    -- A cluster of another source may have one of these names, too.
    where cluster_id in ('pai', 'synth') and (select count(*) from "landed"."main"."bronze_instance_table") > 0
) as here
cross join (
    select
        count(distinct cast(hash(job_name, task_name, inst_name) >> 1 as bigint)) as instances_there,
        count(distinct case when worker_name is not null then cast(hash(worker_name) >> 1 as bigint) end) as workers_there,
        count(*) as rows_there
    from "landed"."main"."bronze_instance_table"
    cross join differing
) as there
where instances_here != instances_there or workers_here != workers_there or rows_here > rows_there

-- test: in_range_silver_instances_0__1000000000_0__attempt(attempt) error
where false
    or attempt < 0
    or attempt > 1000000000.0

-- test: in_range_silver_instances_0__gpus(gpus) error
where false
    or gpus < 0

-- test: in_range_silver_instances_0__run_seconds(run_seconds) warn
where false
    or run_seconds < 0

-- test: not_null_silver_instances_attempt(attempt) error
where attempt is null

-- test: not_null_silver_instances_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_instances_instance_key(instance_key) error
where instance_key is null

-- test: not_null_silver_instances_job_key(job_key) error
where job_key is null

-- test: not_null_silver_instances_status(status) error
where status is null

-- test: not_null_silver_instances_task_key(task_key) error
where task_key is null

-- test: relationships_silver_instances_job_key__job_key__ref_silver_jobs_(job_key) warn
with child as (
    select job_key as from_field
    from "lake"."main"."silver_instances"
    where job_key is not null
),

parent as (
    select job_key as to_field
    from "lake"."main"."silver_jobs"
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null

-- test: relationships_silver_instances_task_key__task_key__ref_silver_tasks_(task_key) warn
with child as (
    select task_key as from_field
    from "lake"."main"."silver_instances"
    where task_key is not null
),

parent as (
    select task_key as to_field
    from "lake"."main"."silver_tasks"
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null
