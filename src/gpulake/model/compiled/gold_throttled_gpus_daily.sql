-- Several reasons may hold at once, so that the hours of single ones may be more than all together.

with samples as (

    select * from __dbt__cte__gpu_sample_days
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
        sum(case when (clock_event_reasons & 236) != 0 then seconds else 0 end) / 3600
                as throttled_hours,
        sum(case when (clock_event_reasons & 132) != 0 then seconds else 0 end) / 3600
                as power_hours,
        sum(case when (clock_event_reasons & 96) != 0 then seconds else 0 end) / 3600
                as thermal_hours,
        sum(case when (clock_event_reasons & 200) != 0 then seconds else 0 end) / 3600
                as hardware_hours,
        sum(case when (clock_event_reasons & 4) != 0 then seconds else 0 end) / 3600
                as sw_power_hours,
        sum(case when (clock_event_reasons & 128) != 0 then seconds else 0 end) / 3600
                as hw_power_brake_hours,
        sum(case when (clock_event_reasons & 32) != 0 then seconds else 0 end) / 3600
                as sw_thermal_hours,
        sum(case when (clock_event_reasons & 64) != 0 then seconds else 0 end) / 3600
                as hw_thermal_hours,
        sum(case when (clock_event_reasons & 8) != 0 then seconds else 0 end) / 3600
                as hw_slowdown_hours,
        sum(case when (clock_event_reasons & 274) != 0 then seconds else 0 end) / 3600
                as settings_hours,
        sum(case when (clock_event_reasons & 236) != 0 then 0 else seconds end) / 3600
            as unthrottled_hours,
        sum(case when (clock_event_reasons & 236) != 0 then seconds else 0 end)
        / nullif(sum(seconds), 0) as throttled_ratio
    from samples
    group by cluster_id, dt, gpu_id

)

select * from final
order by cluster_id, dt, gpu_id

-- test: a_gpu_is_throttled_or_not_once_a_day() error
select cluster_id, dt, gpu_id
from "lake"."main"."gold_throttled_gpus_daily"
group by cluster_id, dt, gpu_id
having count(*) > 1

-- test: hours_are_throttled_or_not() error
where not (abs(observed_hours - throttled_hours - unthrottled_hours) < 1e-6)

-- test: in_range_gold_throttled_gpus_daily_0__1__throttled_ratio(throttled_ratio) error
where false
    or throttled_ratio < 0
    or throttled_ratio > 1

-- test: in_range_gold_throttled_gpus_daily_0__hardware_hours(hardware_hours) error
where false
    or hardware_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__hw_power_brake_hours(hw_power_brake_hours) error
where false
    or hw_power_brake_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__hw_slowdown_hours(hw_slowdown_hours) error
where false
    or hw_slowdown_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__hw_thermal_hours(hw_thermal_hours) error
where false
    or hw_thermal_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__observed_hours(observed_hours) error
where false
    or observed_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__power_hours(power_hours) error
where false
    or power_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__settings_hours(settings_hours) error
where false
    or settings_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__sw_power_hours(sw_power_hours) error
where false
    or sw_power_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__sw_thermal_hours(sw_thermal_hours) error
where false
    or sw_thermal_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__thermal_hours(thermal_hours) error
where false
    or thermal_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__throttled_hours(throttled_hours) error
where false
    or throttled_hours < 0

-- test: in_range_gold_throttled_gpus_daily_0__unthrottled_hours(unthrottled_hours) error
where false
    or unthrottled_hours < 0

-- test: not_null_gold_throttled_gpus_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_throttled_gpus_daily_dt(dt) error
where dt is null

-- test: not_null_gold_throttled_gpus_daily_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_gold_throttled_gpus_daily_hardware_hours(hardware_hours) error
where hardware_hours is null

-- test: not_null_gold_throttled_gpus_daily_hw_power_brake_hours(hw_power_brake_hours) error
where hw_power_brake_hours is null

-- test: not_null_gold_throttled_gpus_daily_hw_slowdown_hours(hw_slowdown_hours) error
where hw_slowdown_hours is null

-- test: not_null_gold_throttled_gpus_daily_hw_thermal_hours(hw_thermal_hours) error
where hw_thermal_hours is null

-- test: not_null_gold_throttled_gpus_daily_observed_hours(observed_hours) error
where observed_hours is null

-- test: not_null_gold_throttled_gpus_daily_power_hours(power_hours) error
where power_hours is null

-- test: not_null_gold_throttled_gpus_daily_settings_hours(settings_hours) error
where settings_hours is null

-- test: not_null_gold_throttled_gpus_daily_sw_power_hours(sw_power_hours) error
where sw_power_hours is null

-- test: not_null_gold_throttled_gpus_daily_sw_thermal_hours(sw_thermal_hours) error
where sw_thermal_hours is null

-- test: not_null_gold_throttled_gpus_daily_thermal_hours(thermal_hours) error
where thermal_hours is null

-- test: not_null_gold_throttled_gpus_daily_throttled_hours(throttled_hours) error
where throttled_hours is null

-- test: not_null_gold_throttled_gpus_daily_unthrottled_hours(unthrottled_hours) error
where unthrottled_hours is null
