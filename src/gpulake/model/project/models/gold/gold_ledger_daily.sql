-- Whose the hours of the hourly ledger are. What a day's jobs claimed shrinks to what the ledger counts of it.

with ledger as (

    select * from {{ ref('gold_ledger_hourly') }}

),

job_days as (

    select * from {{ ref('gold_job_efficiency_daily') }}

),

days as (

    select
        cluster_id,
        dt,
        gpu_type,
        sum(capacity_gpu_hours) as capacity_gpu_hours,
        {{ sum_buckets(buckets()) }}
    from ledger
    group by cluster_id, dt, gpu_type

),

claims as (

    select
        cluster_id,
        dt,
        gpu_type,
        -- Someone held it, whoever that is: the row without a user is what nobody held.
        coalesce(user_id, 'unknown') as user_id,
        group_id,
        workload,
        {{ sum_buckets(held_buckets()) }},
        sum(inferred_gpu_hours) as inferred_gpu_hours,
        sum(held_gpu_hours) as claimed_gpu_hours
    from job_days
    group by cluster_id, dt, gpu_type, coalesce(user_id, 'unknown'), group_id, workload

),

totals as (

    select
        cluster_id,
        dt,
        gpu_type,
        {{ sum_buckets(held_buckets()) }}
    from claims
    group by cluster_id, dt, gpu_type

),

shared as (

    select
        claims.cluster_id,
        claims.dt,
        claims.gpu_type,
        claims.user_id,
        claims.group_id,
        claims.workload,
        {% for bucket in held_buckets() %}
            claims.{{ bucket }}_gpu_hours
            * coalesce(days.{{ bucket }}_gpu_hours / nullif(totals.{{ bucket }}_gpu_hours, 0), 0)
                as {{ bucket }}_gpu_hours,
        {% endfor %}
        coalesce(claims.inferred_gpu_hours / nullif(claims.claimed_gpu_hours, 0), 0) as inferred_ratio
    from claims
    inner join totals
        on
            claims.cluster_id = totals.cluster_id and claims.dt = totals.dt and claims.gpu_type = totals.gpu_type
    inner join days
        on claims.cluster_id = days.cluster_id and claims.dt = days.dt and claims.gpu_type = days.gpu_type

),

held as (

    select
        *,
        {{ held_gpu_hours() }} as held_gpu_hours
    from shared

),

final as (

    select
        cluster_id,
        dt,
        gpu_type,
        user_id,
        group_id,
        workload,
        held_gpu_hours as capacity_gpu_hours,
        0e0 as down_gpu_hours,
        0e0 as unallocated_gpu_hours,
        {% for bucket in held_buckets() %}
            {{ bucket }}_gpu_hours,
        {% endfor %}
        held_gpu_hours * inferred_ratio as inferred_gpu_hours
    from held

    union all

    select
        cluster_id,
        dt,
        gpu_type,
        cast(null as varchar) as user_id,
        cast(null as varchar) as group_id,
        cast(null as varchar) as workload,
        down_gpu_hours + unallocated_gpu_hours as capacity_gpu_hours,
        down_gpu_hours,
        unallocated_gpu_hours,
        {% for bucket in held_buckets() %}
            0e0 as {{ bucket }}_gpu_hours,
        {% endfor %}
        0e0 as inferred_gpu_hours
    from days

)

select * from final
