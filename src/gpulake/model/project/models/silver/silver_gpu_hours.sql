-- A sample is of each hour that it covers a part of. A board with MIG instances is represented by them, in equal parts.
-- A GPU is told by its number in the machine, so that a board that is replaced adds none.

with samples as not materialized (

    select * from {{ ref('silver_gpu_samples') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

instances as (

    select
        parent_gpu_id,
        1.0 / count(distinct gpu_id) as share
    from samples
    where parent_gpu_id is not null
    group by parent_gpu_id

),

begins as (

    select
        cluster_id,
        min(sampled_at) as first_at
    from samples
    group by cluster_id

),

zones as (

    select
        begins.cluster_id,
        coalesce(known.time_zone, 'UTC') as time_zone,
        {{ hour_shift_seconds('begins.first_at', "coalesce(known.time_zone, 'UTC')") }} as shift
    from begins
    left join known on begins.cluster_id = known.cluster_id

),

placed as not materialized (

    select
        samples.cluster_id,
        samples.machine_key,
        samples.node_id,
        samples.gpu_index,
        case when samples.gpu_index is null then coalesce(samples.parent_gpu_id, samples.gpu_id) end as unnumbered_id,
        samples.gpu_name,
        {{ seconds_of('samples.sampled_at') }} as begin_seconds,
        {{ seconds_of('samples.sampled_at') }} + samples.covers_seconds as end_seconds,
        zones.shift,
        {{ hour_number(seconds_of('samples.sampled_at'), 'zones.shift') }} as hour_number,
        coalesce(instances.share, 1) as share,
        samples.owner_kind not in ('nobody', 'unknown') as is_in_use,
        samples.owner_kind = 'nobody' as is_free,
        samples.busy_ratio,
        samples.temperature_celsius,
        samples.temperature_celsius >= coalesce(samples.slowdown_temperature_celsius, parameters.hot_gpu_celsius)
            as is_hot,
        {{ has_clock_reason('samples.clock_event_reasons', 'thermal') }} as is_throttled,
        -- The bit of a hardware slowdown is set for heat, too.
        {{ has_clock_reason('samples.clock_event_reasons', 'hardware') }}
        and not {{ has_clock_reason('samples.clock_event_reasons', 'thermal') }} as is_braked,
        case
            when
                samples.busy_ratio >= 0.5
                and coalesce({{ has_clock_reason('samples.clock_event_reasons', 'power') }}, true)
                then samples.sm_clock_hertz
        end as loaded_clock_hertz
    from samples
    inner join zones on samples.cluster_id = zones.cluster_id
    left join instances on samples.parent_gpu_id = instances.parent_gpu_id
    cross join parameters
    where samples.gpu_id not in (select boards.parent_gpu_id from instances as boards)

),

pieces as not materialized (

    select
        *,
        hour_number as piece
    from placed

    union all

    select
        *,
        {{ each_number('hour_number + 1', 'cast(ceil((end_seconds + shift) / 3600) as bigint)') }} as piece
    from placed
    where end_seconds > (hour_number + 1) * 3600 - shift

),

timed as not materialized (

    select
        *,
        greatest({{ hours_within('begin_seconds', 'end_seconds', 'piece', 'shift') }}, 0) * share as hours
    from pieces

),

hours as (

    select
        cluster_id,
        machine_key,
        gpu_index,
        unnumbered_id,
        piece as hour_number,
        max(shift) as shift,
        max(node_id) as node_id,
        max(gpu_name) as gpu_name,
        min(greatest(begin_seconds, piece * 3600 - shift)) as first_seconds,
        max(least(end_seconds, piece * 3600 + 3600 - shift)) as last_seconds,
        sum(hours) as observed_hours,
        sum(case when is_in_use then hours else 0 end) as in_use_hours,
        sum(case when is_free then hours else 0 end) as free_hours,
        sum(case when busy_ratio is not null then hours else 0 end) as measured_hours,
        sum(coalesce(busy_ratio, 0) * hours) as busy_hours,
        max(temperature_celsius) as max_celsius,
        sum(case when temperature_celsius is not null then hours else 0 end) as felt_hours,
        sum(coalesce(temperature_celsius, 0) * hours) as celsius_hours,
        sum(case when is_hot then hours else 0 end) as hot_hours,
        sum(case when is_throttled then hours else 0 end) as thermal_hours,
        sum(case when is_braked then hours else 0 end) as braked_hours,
        sum(case when loaded_clock_hertz is not null then hours else 0 end) as loaded_hours,
        sum(coalesce(loaded_clock_hertz, 0) * hours) as loaded_hertz_hours
    from timed
    group by cluster_id, machine_key, gpu_index, unnumbered_id, piece

),

final as (

    select
        hours.cluster_id,
        {{ local_day(instant('hours.hour_number * 3600 - hours.shift'), 'zones.time_zone') }} as dt,
        hours.machine_key,
        hours.node_id,
        coalesce(cast(hours.gpu_index as varchar), hours.unnumbered_id) as gpu,
        hours.gpu_name,
        hours.hour_number,
        {{ instant('hours.hour_number * 3600 - hours.shift') }} as started_at,
        {{ instant('hours.first_seconds') }} as first_at,
        {{ instant('hours.last_seconds') }} as last_at,
        hours.observed_hours,
        hours.in_use_hours,
        hours.free_hours,
        hours.busy_hours / nullif(hours.measured_hours, 0) as busy_ratio,
        hours.celsius_hours / nullif(hours.felt_hours, 0) as mean_celsius,
        hours.max_celsius,
        hours.hot_hours,
        hours.thermal_hours,
        hours.braked_hours,
        hours.loaded_hertz_hours / nullif(hours.loaded_hours, 0) as loaded_clock_hertz
    from hours
    inner join zones on hours.cluster_id = zones.cluster_id

)

select * from final
