-- While a job waits, each pull finds one reason; it counts until the next pull that finds the job waiting, or until
-- the job begins, at most so long. An array's tasks that have not begun wait for the reason of its rest. What no pull
-- saw counts for the reason that accounting has, if it has one.



with tries as (

    select * from __dbt__cte__slurm_tries
    where submitted_at is not null

),

said as (

    select
        cluster_id,
        own_job_id,
        asked_at,
        status,
        elapsed_seconds is not null as is_accounting,
        nullif(regexp_extract("Reason", '^([A-Za-z0-9_]+)', 1), '') as reason
    from __dbt__cte__slurm_rows
    where step is null and "Reason" not in ('None', 'none', '(null)')

),

seen as (

    select
        cluster_id,
        own_job_id,
        asked_at,
        coalesce(min(case when not is_accounting then reason end), min(reason)) as reason
    from said
    where asked_at is not null and status = 'waiting'
    group by cluster_id, own_job_id, asked_at

),

accounted as (

    select
        cluster_id,
        own_job_id,
        max(reason) as reason
    from said
    where is_accounting
    group by cluster_id, own_job_id

),

-- One that still waits is known to have waited until it was last seen.
waited as (

    select
        tries.cluster_id,
        tries.job_id,
        tries.run,
        tries.account_id,
        tries.partition_id,
        tries.qos_id,
        tries.requested_gpus,
        tries.submitted_at,
        coalesce(nullif(regexp_extract(tries.job_id, '^([0-9]+_)[0-9]', 1), '') || '[]', tries.job_id) as rest_id,
        coalesce(tries.started_at, tries.ended_at) as waited_until
    from tries

),

named as (

    select
        *,
        job_id as seen_id
    from waited

    union all

    select
        *,
        rest_id as seen_id
    from waited
    where rest_id != job_id

),

pulled as (

    select
        named.cluster_id,
        named.job_id,
        named.run,
        seen.asked_at,
        min(seen.reason) as reason
    from named
    inner join seen
        on
            named.cluster_id = seen.cluster_id
            and named.seen_id = seen.own_job_id
            and named.submitted_at <= seen.asked_at
            and coalesce(named.waited_until > seen.asked_at, true)
    group by named.cluster_id, named.job_id, named.run, seen.asked_at

),

followed as (

    select
        *,
        lead(asked_at) over (partition by cluster_id, job_id, run order by asked_at) as next_at
    from pulled

),

lasts as (

    select
        cluster_id,
        job_id,
        run,
        max(asked_at) as last_at
    from pulled
    group by cluster_id, job_id, run

),

ends as (

    select
        waited.*,
        coalesce(waited.waited_until, lasts.last_at) as ended_at
    from waited
    left join lasts
        on waited.cluster_id = lasts.cluster_id and waited.job_id = lasts.job_id and waited.run = lasts.run

),

parts as (

    select
        ends.cluster_id,
        ends.job_id,
        ends.run,
        followed.reason,
        sum(
            greatest(
                least((epoch_us(followed.next_at) / 1e6), (epoch_us(ends.ended_at) / 1e6), (epoch_us(followed.asked_at) / 1e6) + 3600) - (epoch_us(followed.asked_at) / 1e6),
                0
            )
        ) as seconds
    from ends
    inner join followed
        on ends.cluster_id = followed.cluster_id and ends.job_id = followed.job_id and ends.run = followed.run
    group by ends.cluster_id, ends.job_id, ends.run, followed.reason

),

covered as (

    select
        cluster_id,
        job_id,
        run,
        sum(seconds) as seconds
    from parts
    group by cluster_id, job_id, run

),

every as (

    select
        cluster_id,
        job_id,
        run,
        reason,
        'pull' as basis,
        seconds
    from parts
    where seconds > 0

    union all

    select
        ends.cluster_id,
        ends.job_id,
        ends.run,
        accounted.reason,
        case when accounted.reason is null then 'none' else 'accounting' end as basis,
        (epoch_us(ends.ended_at) / 1e6) - (epoch_us(ends.submitted_at) / 1e6)
        - coalesce(covered.seconds, 0) as seconds
    from ends
    left join covered
        on ends.cluster_id = covered.cluster_id and ends.job_id = covered.job_id and ends.run = covered.run
    left join accounted on ends.cluster_id = accounted.cluster_id and ends.job_id = accounted.own_job_id
    where (epoch_us(ends.ended_at) / 1e6) - (epoch_us(ends.submitted_at) / 1e6) > coalesce(covered.seconds, 0)

),

final as (

    select
        cast(hash(ends.cluster_id, ends.job_id) >> 1 as bigint) as job_key,
        ends.cluster_id,
        ends.run,
        ends.account_id,
        ends.partition_id,
        ends.qos_id,
        ends.submitted_at,
        ends.waited_until is null as is_waiting,
        ends.requested_gpus,
        coalesce(every.reason, 'unknown') as reason,
        every.basis,
        every.seconds as wait_seconds
    from ends
    inner join every
        on ends.cluster_id = every.cluster_id and ends.job_id = every.job_id and ends.run = every.run

)

select * from final

-- test: a_run_waits_once_for_a_reason() error
select job_key, run, reason, basis
from "lake"."main"."silver_waits"
group by job_key, run, reason, basis
having count(*) > 1

-- test: accepted_values_silver_waits_basis__pull__accounting__none(basis) error
where basis not in ('pull', 'accounting', 'none')

-- test: in_range_silver_waits_0__requested_gpus(requested_gpus) error
where false
    or requested_gpus < 0

-- test: in_range_silver_waits_0__wait_seconds(wait_seconds) error
where false
    or wait_seconds < 0

-- test: not_null_silver_waits_basis(basis) error
where basis is null

-- test: not_null_silver_waits_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_waits_is_waiting(is_waiting) error
where is_waiting is null

-- test: not_null_silver_waits_job_key(job_key) error
where job_key is null

-- test: not_null_silver_waits_reason(reason) error
where reason is null

-- test: not_null_silver_waits_requested_gpus(requested_gpus) error
where requested_gpus is null

-- test: not_null_silver_waits_run(run) error
where run is null

-- test: not_null_silver_waits_submitted_at(submitted_at) error
where submitted_at is null

-- test: not_null_silver_waits_wait_seconds(wait_seconds) error
where wait_seconds is null
