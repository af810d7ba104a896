-- The hours of the hourly ledger by holder. Claims beyond a machine's capacity in an hour are cut from the claims of
-- that hour.

{% set amounts = held_buckets() + held_notes() %}

with ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

job_days as (

    select * from {{ ref('gold_job_efficiency_daily') }}
    where gpu_type != 'unlisted'

),

overcommits as (

    select * from {{ ref('silver_overcommits') }}

),

excess as (

    select
        dt,
        job_key,
        gpu_type,
        {{ sum_pieces() }}
    from overcommits
    group by dt, job_key, gpu_type

),

claims as (

    select
        job_days.cluster_id,
        job_days.dt,
        job_days.gpu_type,
        job_days.user_id,
        job_days.group_id,
        job_days.account_id,
        {% for amount in amounts %}
            -- Sums of floats: what is left of nothing is nothing.
            greatest(job_days.{{ amount }}_gpu_hours - coalesce(excess.{{ amount }}_gpu_hours, 0), 0)
                as {{ amount }}_gpu_hours,
        {% endfor %}
        job_days.workload
    from job_days
    left join excess
        on
            job_days.job_key = excess.job_key and job_days.dt = excess.dt and job_days.gpu_type = excess.gpu_type

),

held as (

    select
        cluster_id,
        dt,
        gpu_type,
        user_id,
        group_id,
        account_id,
        workload,
        {{ sum_buckets(amounts) }}
    from claims
    group by cluster_id, dt, gpu_type, user_id, group_id, account_id, workload

),

final as (

    select
        cluster_id,
        dt,
        gpu_type,
        user_id,
        group_id,
        account_id,
        workload,
        {{ held_gpu_hours() }} as capacity_gpu_hours,
        {% for bucket in buckets() %}
            {{ bucket ~ '_gpu_hours' if bucket in held_buckets() else '0e0 as ' ~ bucket ~ '_gpu_hours' }},
        {% endfor %}
        {{ lost_gpu_hours() }} as lost_gpu_hours,
        {{ gpu_hour_columns(held_notes()) }}
    from held

    union all

    select
        cluster_id,
        dt,
        gpu_type,
        cast(null as varchar) as user_id,
        cast(null as varchar) as group_id,
        cast(null as varchar) as account_id,
        cast(null as varchar) as workload,
        sum(down_gpu_hours + unknown_gpu_hours + unallocated_gpu_hours) as capacity_gpu_hours,
        {% for bucket in buckets() %}
            {{ '0e0' if bucket in held_buckets() else 'sum(' ~ bucket ~ '_gpu_hours)' }} as {{ bucket }}_gpu_hours,
        {% endfor %}
        {{ gpu_hour_columns(['lost'] + held_notes(), '0e0 as ') }}
    from ledger
    group by cluster_id, dt, gpu_type

)

select * from final
