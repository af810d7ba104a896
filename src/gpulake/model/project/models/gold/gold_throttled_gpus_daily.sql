-- Several reasons may hold at once, so that the hours of single ones may be more than all together.

with samples as (

    select * from {{ ref('gpu_sample_days') }}
    where clock_event_reasons is not null

),

final as (

    select
        cluster_id,
        dt,
        max(node_id) as node_id,
        gpu_id,
        max(gpu_index) as gpu_index,
        max(gpu_name) as gpu_name,
        sum(seconds) / 3600 as observed_hours,
        {% for reason in [
            'throttled', 'power', 'thermal', 'hardware', 'sw_power', 'hw_power_brake', 'sw_thermal', 'hw_thermal',
            'hw_slowdown', 'settings'
        ] -%}
            sum(case when {{ has_clock_reason('clock_event_reasons', reason) }} then seconds else 0 end) / 3600
                as {{ reason }}_hours,
        {% endfor -%}
        sum(case when {{ has_clock_reason('clock_event_reasons', 'throttled') }} then 0 else seconds end) / 3600
            as unthrottled_hours,
        sum(case when {{ has_clock_reason('clock_event_reasons', 'throttled') }} then seconds else 0 end)
        / nullif(sum(seconds), 0) as throttled_ratio
    from samples
    group by cluster_id, dt, gpu_id

)

select * from final
order by cluster_id, dt, gpu_id
