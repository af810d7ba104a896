-- Of several sources of one GPU the best one counts at a time, so that its time is counted once.

-- The many columns are read twice, where keeping them in between would take more memory than all else.
with reported as not materialized (

    select * from __dbt__cte__collected_gpu_samples
    union all by name
    select * from __dbt__cte__dcgm_samples
    union all by name
    select * from __dbt__cte__nvidia_smi_samples
    union all by name
    select * from __dbt__cte__rocm_smi_samples
    union all by name
    select * from __dbt__cte__exporter_samples

),

nodes as (

    select * from "lake"."main"."silver_nodes"

),

parameters as (

    select * from "landed"."main"."parameters"

),

-- The same run may have landed by node and merged; of two sources at one instant the one that sees more counts.
once as not materialized (

    
    with keyed as not materialized (

        select
            *,
            cast(hash(gpu_id, sampled_at) >> 1 as bigint) as row_key
        from reported

    ),

    repeated as (

        select row_key
        from keyed
        group by row_key
        having count(*) > 1

    )

    select * from keyed
    where row_key not in (select row_key from repeated)

    union all

    select * from keyed
    where row_key in (select row_key from repeated)
    qualify row_number() over (partition by row_key order by preference asc, node_id asc, host_id asc nulls last, keyed) = 1


),

cleaned as not materialized (

    select
        * replace (
            case when gpu_busy_ratio between 0 and 1 then cast(gpu_busy_ratio as double) end as gpu_busy_ratio,
            case when memory_busy_ratio between 0 and 1 then cast(memory_busy_ratio as double) end as memory_busy_ratio,
            case when encoder_busy_ratio between 0 and 1 then cast(encoder_busy_ratio as double) end as encoder_busy_ratio,
            case when decoder_busy_ratio between 0 and 1 then cast(decoder_busy_ratio as double) end as decoder_busy_ratio,
            case when sm_active_ratio between 0 and 1 then cast(sm_active_ratio as double) end as sm_active_ratio,
            case when sm_occupancy_ratio between 0 and 1 then cast(sm_occupancy_ratio as double) end as sm_occupancy_ratio,
            case when tensor_active_ratio between 0 and 1 then cast(tensor_active_ratio as double) end as tensor_active_ratio,
            case when dram_active_ratio between 0 and 1 then cast(dram_active_ratio as double) end as dram_active_ratio,
            case when graphics_active_ratio between 0 and 1 then cast(graphics_active_ratio as double) end as graphics_active_ratio,
            case when memory_used_bytes between 0 and 1e17 then cast(memory_used_bytes as bigint) end as memory_used_bytes,
            case when memory_total_bytes between 0 and 1e17 then cast(memory_total_bytes as bigint) end as memory_total_bytes,
            case when power_watts between 0 and 20000 then cast(power_watts as double) end as power_watts,
            case when power_limit_watts between 0 and 20000 then cast(power_limit_watts as double) end as power_limit_watts,
            case when energy_joules_total between 0 and 1e13 then cast(energy_joules_total as double) end as energy_joules_total,
            case when temperature_celsius between -40 and 150 then cast(temperature_celsius as double) end as temperature_celsius,
            case when memory_temperature_celsius between -40 and 150 then cast(memory_temperature_celsius as double) end as memory_temperature_celsius,
            case when slowdown_temperature_celsius between -40 and 150 then cast(slowdown_temperature_celsius as double) end as slowdown_temperature_celsius,
            case when sm_clock_hertz between 0 and 2e10 then cast(sm_clock_hertz as bigint) end as sm_clock_hertz,
            case when memory_clock_hertz between 0 and 2e10 then cast(memory_clock_hertz as bigint) end as memory_clock_hertz,
            case when clock_event_reasons between 0 and 2147483631 then cast(clock_event_reasons as bigint) end as clock_event_reasons,
            case when power_violation_seconds_total between 0 and 1e12 then cast(power_violation_seconds_total as double) end as power_violation_seconds_total,
            case when thermal_violation_seconds_total between 0 and 1e12 then cast(thermal_violation_seconds_total as double) end as thermal_violation_seconds_total,
            case when ecc_corrected_total between 0 and 9e18 then cast(ecc_corrected_total as bigint) end as ecc_corrected_total,
            case when ecc_uncorrected_total between 0 and 9e18 then cast(ecc_uncorrected_total as bigint) end as ecc_uncorrected_total,
            case when ecc_corrected_lifetime_total between 0 and 9e18 then cast(ecc_corrected_lifetime_total as bigint) end as ecc_corrected_lifetime_total,
            case when ecc_uncorrected_lifetime_total between 0 and 9e18 then cast(ecc_uncorrected_lifetime_total as bigint) end as ecc_uncorrected_lifetime_total,
            case when remapped_rows_correctable between 0 and 2147483631 then cast(remapped_rows_correctable as bigint) end as remapped_rows_correctable,
            case when remapped_rows_uncorrectable between 0 and 2147483631 then cast(remapped_rows_uncorrectable as bigint) end as remapped_rows_uncorrectable,
            case when last_xid between 0 and 2147483631 then cast(last_xid as bigint) end as last_xid,
            case when pcie_rx_bytes_per_second between 0 and 1e13 then cast(pcie_rx_bytes_per_second as double) end as pcie_rx_bytes_per_second,
            case when pcie_tx_bytes_per_second between 0 and 1e13 then cast(pcie_tx_bytes_per_second as double) end as pcie_tx_bytes_per_second,
            case when pcie_replays_total between 0 and 9e18 then cast(pcie_replays_total as bigint) end as pcie_replays_total,
            case when pcie_link_generation between 0 and 2147483631 then cast(pcie_link_generation as bigint) end as pcie_link_generation,
            case when pcie_link_width between 0 and 2147483631 then cast(pcie_link_width as bigint) end as pcie_link_width,
            case when nvlink_rx_bytes_per_second between 0 and 1e13 then cast(nvlink_rx_bytes_per_second as double) end as nvlink_rx_bytes_per_second,
            case when nvlink_tx_bytes_per_second between 0 and 1e13 then cast(nvlink_tx_bytes_per_second as double) end as nvlink_tx_bytes_per_second,
            case when nvlink_errors_total between 0 and 9e18 then cast(nvlink_errors_total as bigint) end as nvlink_errors_total,
            case when nvlink_links_active between 0 and 2147483631 then cast(nvlink_links_active as bigint) end as nvlink_links_active,
            case when processes between 0 and 2147483631 then cast(processes as bigint) end as processes
            
        ),
        case when gpu_busy_ratio is not null and not (gpu_busy_ratio between 0 and 1) then 1 else 0 end + case when memory_busy_ratio is not null and not (memory_busy_ratio between 0 and 1) then 1 else 0 end + case when encoder_busy_ratio is not null and not (encoder_busy_ratio between 0 and 1) then 1 else 0 end + case when decoder_busy_ratio is not null and not (decoder_busy_ratio between 0 and 1) then 1 else 0 end + case when sm_active_ratio is not null and not (sm_active_ratio between 0 and 1) then 1 else 0 end + case when sm_occupancy_ratio is not null and not (sm_occupancy_ratio between 0 and 1) then 1 else 0 end + case when tensor_active_ratio is not null and not (tensor_active_ratio between 0 and 1) then 1 else 0 end + case when dram_active_ratio is not null and not (dram_active_ratio between 0 and 1) then 1 else 0 end + case when graphics_active_ratio is not null and not (graphics_active_ratio between 0 and 1) then 1 else 0 end + case when memory_used_bytes is not null and not (memory_used_bytes between 0 and 1e17) then 1 else 0 end + case when memory_total_bytes is not null and not (memory_total_bytes between 0 and 1e17) then 1 else 0 end + case when power_watts is not null and not (power_watts between 0 and 20000) then 1 else 0 end + case when power_limit_watts is not null and not (power_limit_watts between 0 and 20000) then 1 else 0 end + case when energy_joules_total is not null and not (energy_joules_total between 0 and 1e13) then 1 else 0 end + case when temperature_celsius is not null and not (temperature_celsius between -40 and 150) then 1 else 0 end + case when memory_temperature_celsius is not null and not (memory_temperature_celsius between -40 and 150) then 1 else 0 end + case when slowdown_temperature_celsius is not null and not (slowdown_temperature_celsius between -40 and 150) then 1 else 0 end + case when sm_clock_hertz is not null and not (sm_clock_hertz between 0 and 2e10) then 1 else 0 end + case when memory_clock_hertz is not null and not (memory_clock_hertz between 0 and 2e10) then 1 else 0 end + case when clock_event_reasons is not null and not (clock_event_reasons between 0 and 2147483631) then 1 else 0 end + case when power_violation_seconds_total is not null and not (power_violation_seconds_total between 0 and 1e12) then 1 else 0 end + case when thermal_violation_seconds_total is not null and not (thermal_violation_seconds_total between 0 and 1e12) then 1 else 0 end + case when ecc_corrected_total is not null and not (ecc_corrected_total between 0 and 9e18) then 1 else 0 end + case when ecc_uncorrected_total is not null and not (ecc_uncorrected_total between 0 and 9e18) then 1 else 0 end + case when ecc_corrected_lifetime_total is not null and not (ecc_corrected_lifetime_total between 0 and 9e18) then 1 else 0 end + case when ecc_uncorrected_lifetime_total is not null and not (ecc_uncorrected_lifetime_total between 0 and 9e18) then 1 else 0 end + case when remapped_rows_correctable is not null and not (remapped_rows_correctable between 0 and 2147483631) then 1 else 0 end + case when remapped_rows_uncorrectable is not null and not (remapped_rows_uncorrectable between 0 and 2147483631) then 1 else 0 end + case when last_xid is not null and not (last_xid between 0 and 2147483631) then 1 else 0 end + case when pcie_rx_bytes_per_second is not null and not (pcie_rx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when pcie_tx_bytes_per_second is not null and not (pcie_tx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when pcie_replays_total is not null and not (pcie_replays_total between 0 and 9e18) then 1 else 0 end + case when pcie_link_generation is not null and not (pcie_link_generation between 0 and 2147483631) then 1 else 0 end + case when pcie_link_width is not null and not (pcie_link_width between 0 and 2147483631) then 1 else 0 end + case when nvlink_rx_bytes_per_second is not null and not (nvlink_rx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when nvlink_tx_bytes_per_second is not null and not (nvlink_tx_bytes_per_second between 0 and 1e13) then 1 else 0 end + case when nvlink_errors_total is not null and not (nvlink_errors_total between 0 and 9e18) then 1 else 0 end + case when nvlink_links_active is not null and not (nvlink_links_active between 0 and 2147483631) then 1 else 0 end + case when processes is not null and not (processes between 0 and 2147483631) then 1 else 0 end as implausible_values
    from once

),

-- Apart from the many columns that they do not need, the intervals are worked out in a fraction of the time.
moments as (

    select
        row_key,
        gpu_id,
        parent_gpu_id,
        preference,
        sampled_at,
        energy_joules_total
    from cleaned

),

several as (

    select * from moments
    where
        gpu_id in (
            select told_of.gpu_id
            from moments as told_of
            group by told_of.gpu_id
            having min(told_of.preference) < max(told_of.preference)
        )

),

looks as (

    select
        * exclude (moment_0, moment_1, moment_2, moment_3, moment_4, moment_5, moment_6, moment_7, moment_8, moment_9, moment_10, moment_11),
        case
            when gap_seconds is null then 0
            when gap_seconds <= 3 * least(moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10) then least(gap_seconds, 7200)
            else least(gap_seconds, 3 * list_median([moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10]), 7200)
        end as covers_seconds
    from (
        select
            *,
            moment_6 - moment_5 as gap_seconds
        from (
            select
                *,
                (epoch_us(lag(sampled_at, 5) over by_time) / 1e6) as moment_0,
                (epoch_us(lag(sampled_at, 4) over by_time) / 1e6) as moment_1,
                (epoch_us(lag(sampled_at, 3) over by_time) / 1e6) as moment_2,
                (epoch_us(lag(sampled_at, 2) over by_time) / 1e6) as moment_3,
                (epoch_us(lag(sampled_at, 1) over by_time) / 1e6) as moment_4,
                (epoch_us(sampled_at) / 1e6) as moment_5,
                (epoch_us(lead(sampled_at, 1) over by_time) / 1e6) as moment_6,
                (epoch_us(lead(sampled_at, 2) over by_time) / 1e6) as moment_7,
                (epoch_us(lead(sampled_at, 3) over by_time) / 1e6) as moment_8,
                (epoch_us(lead(sampled_at, 4) over by_time) / 1e6) as moment_9,
                (epoch_us(lead(sampled_at, 5) over by_time) / 1e6) as moment_10,
                (epoch_us(lead(sampled_at, 6) over by_time) / 1e6) as moment_11
                
            from several
            window by_time as (partition by gpu_id, preference order by sampled_at)
        ) as followed
    ) as usual


),

seen_until as (

    select
        row_key,
        sampled_at,
        case preference
            when 2
                    then
                        max(case when preference <= 1 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            when 3
                    then
                        max(case when preference <= 2 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            when 4
                    then
                        max(case when preference <= 3 then sampled_at + to_seconds(covers_seconds) end)
                            over (partition by gpu_id order by sampled_at)
            end as better_until
    from looks

),

-- While a source that sees more looks at a GPU, the others add no time and no owner of their own.
needed as (

    select * from moments
    where
        row_key not in (
            select seen_until.row_key
            from seen_until
            where seen_until.sampled_at < seen_until.better_until
        )

),

intervals as (

    select
        * exclude (moment_0, moment_1, moment_2, moment_3, moment_4, moment_5, moment_6, moment_7, moment_8, moment_9, moment_10, moment_11),
        case
            when gap_seconds is null then 0
            when gap_seconds <= 3 * least(moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10) then least(gap_seconds, 7200)
            else least(gap_seconds, 3 * list_median([moment_1 - moment_0, moment_2 - moment_1, moment_3 - moment_2, moment_4 - moment_3, moment_5 - moment_4, moment_6 - moment_5, moment_7 - moment_6, moment_8 - moment_7, moment_9 - moment_8, moment_10 - moment_9, moment_11 - moment_10]), 7200)
        end as covers_seconds
    from (
        select
            *,
            moment_6 - moment_5 as gap_seconds
        from (
            select
                *,
                lead(energy_joules_total) over by_time as next_energy_joules_total,
                (epoch_us(lag(sampled_at, 5) over by_time) / 1e6) as moment_0,
                (epoch_us(lag(sampled_at, 4) over by_time) / 1e6) as moment_1,
                (epoch_us(lag(sampled_at, 3) over by_time) / 1e6) as moment_2,
                (epoch_us(lag(sampled_at, 2) over by_time) / 1e6) as moment_3,
                (epoch_us(lag(sampled_at, 1) over by_time) / 1e6) as moment_4,
                (epoch_us(sampled_at) / 1e6) as moment_5,
                (epoch_us(lead(sampled_at, 1) over by_time) / 1e6) as moment_6,
                (epoch_us(lead(sampled_at, 2) over by_time) / 1e6) as moment_7,
                (epoch_us(lead(sampled_at, 3) over by_time) / 1e6) as moment_8,
                (epoch_us(lead(sampled_at, 4) over by_time) / 1e6) as moment_9,
                (epoch_us(lead(sampled_at, 5) over by_time) / 1e6) as moment_10,
                (epoch_us(lead(sampled_at, 6) over by_time) / 1e6) as moment_11
                
            from needed
            window by_time as (partition by gpu_id order by sampled_at)
        ) as followed
    ) as usual


),

timed as not materialized (

    select
        cleaned.*,
        coalesce(intervals.covers_seconds, 0) as covers_seconds,
        intervals.gap_seconds,
        intervals.next_energy_joules_total
    from cleaned
    left join intervals on cleaned.row_key = intervals.row_key

),

-- An exporter says of each MIG instance what its whole board draws: where the board has a row of its own that one
-- counts, else the instances share it.
shared_boards as (

    select
        coalesce(parent_gpu_id, gpu_id) as board_id,
        sampled_at,
        count(parent_gpu_id) as instances,
        count(*) > count(parent_gpu_id) as has_board
    from moments
    where coalesce(parent_gpu_id, gpu_id) in (select parts.parent_gpu_id from moments as parts)
    group by all

),

measured as (

    select
        timed.*,
        case
            when timed.parent_gpu_id is null then 1
            when shared_boards.has_board then 0
            else 1.0 / shared_boards.instances
        end as board_share,
        -- A counter that went back, or grew faster than any board can draw, says nothing of what was drawn.
        case when timed.next_energy_joules_total >= timed.energy_joules_total and timed.gap_seconds > 0 then (timed.next_energy_joules_total - timed.energy_joules_total) / timed.gap_seconds end as counted_watts,
        -- What is in use has an owner, though the source names none.
        coalesce(timed.owner_kind, 'nobody') = 'nobody'
        and (
            coalesce(coalesce(timed.gpu_busy_ratio, timed.graphics_active_ratio) >= parameters.idle_gpu_ratio, false)
            or coalesce(timed.memory_used_bytes >= 1073741824, false)
            or coalesce(timed.processes > 0, false)
        ) as is_used_by_unknown
    from timed
    left join shared_boards
        on
            coalesce(timed.parent_gpu_id, timed.gpu_id) = shared_boards.board_id
            and timed.sampled_at = shared_boards.sampled_at
    cross join parameters

),

final as (

    select
        nodes.cluster_id,
        measured.node_id,
        measured.host_id,
        nodes.machine_key,
        measured.gpu_id,
        measured.gpu_index,
        measured.gpu_name,
        measured.pci_bus_id,
        measured.parent_gpu_id,
        measured.mig_profile,
        measured.sampled_at,
        measured.covers_seconds,
        measured.source,
        coalesce(measured.gpu_busy_ratio, measured.graphics_active_ratio) as busy_ratio,
        case
            when measured.gpu_busy_ratio is not null then 'utilisation'
            when measured.graphics_active_ratio is not null then 'graphics_engine'
        end as busy_basis,
        measured.memory_busy_ratio,
        measured.encoder_busy_ratio,
        measured.decoder_busy_ratio,
        measured.sm_active_ratio,
        measured.sm_occupancy_ratio,
        measured.tensor_active_ratio,
        measured.dram_active_ratio,
        measured.graphics_active_ratio,
        measured.memory_used_bytes,
        measured.memory_total_bytes,
        measured.power_watts,
        measured.power_limit_watts,
        measured.energy_joules_total,
        measured.temperature_celsius,
        measured.memory_temperature_celsius,
        measured.slowdown_temperature_celsius,
        measured.sm_clock_hertz,
        measured.memory_clock_hertz,
        measured.clock_event_reasons,
        measured.power_violation_seconds_total,
        measured.thermal_violation_seconds_total,
        measured.ecc_corrected_total,
        measured.ecc_uncorrected_total,
        measured.ecc_corrected_lifetime_total,
        measured.ecc_uncorrected_lifetime_total,
        measured.remapped_rows_correctable,
        measured.remapped_rows_uncorrectable,
        measured.last_xid,
        measured.pcie_rx_bytes_per_second,
        measured.pcie_tx_bytes_per_second,
        measured.pcie_replays_total,
        measured.pcie_link_generation,
        measured.pcie_link_width,
        measured.nvlink_rx_bytes_per_second,
        measured.nvlink_tx_bytes_per_second,
        measured.nvlink_errors_total,
        measured.nvlink_links_active,
        measured.processes,
        measured.has_remap_pending,
        measured.has_remap_failure,
        measured.board_share * measured.covers_seconds * case
            when measured.counted_watts <= 20000 then measured.counted_watts else measured.power_watts
        end as energy_joules,
        case
            when measured.counted_watts <= 20000 then 'counter' when measured.power_watts is not null then 'power'
        end as energy_basis,
        case
            when measured.counted_watts <= 20000
                then measured.board_share * (measured.gap_seconds - measured.covers_seconds) * measured.counted_watts
            else 0
        end as unseen_energy_joules,
        case
            when measured.is_used_by_unknown then 'unattributed' else coalesce(measured.owner_kind, 'unknown')
        end as owner_kind,
        measured.owner_id,
        case when measured.is_used_by_unknown then 'use' else measured.owner_evidence end as owner_evidence,
        cast(measured.implausible_values as bigint) as implausible_values
    from measured
    left join nodes on measured.node_id = nodes.node_id

)

select * from final

-- test: a_gpu_is_sampled_once_at_a_time() error
select gpu_id, sampled_at
from "lake"."main"."silver_gpu_samples"
group by gpu_id, sampled_at
having count(*) > 1

-- test: accepted_values_silver_gpu_samples_busy_basis__utilisation__graphics_engine(busy_basis) error
where busy_basis not in ('utilisation', 'graphics_engine')

-- test: accepted_values_silver_gpu_samples_energy_basis__counter__power(energy_basis) error
where energy_basis not in ('counter', 'power')

-- test: accepted_values_silver_gpu_samples_owner_kind__slurm__pod__container__trace__several__unattributed__nobody__unknown(owner_kind) error
where owner_kind not in ('slurm', 'pod', 'container', 'trace', 'several', 'unattributed', 'nobody', 'unknown')

-- test: accepted_values_silver_gpu_samples_source__collector__dcgm__nvidia_smi__rocm_smi__nvidia_exporter__amd_exporter__otel_exporter(source) error
where source not in ('collector', 'dcgm', 'nvidia_smi', 'rocm_smi', 'nvidia_exporter', 'amd_exporter', 'otel_exporter')

-- test: not_null_silver_gpu_samples_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_silver_gpu_samples_covers_seconds(covers_seconds) error
where covers_seconds is null

-- test: not_null_silver_gpu_samples_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_silver_gpu_samples_implausible_values(implausible_values) error
where implausible_values is null

-- test: not_null_silver_gpu_samples_machine_key(machine_key) error
where machine_key is null

-- test: not_null_silver_gpu_samples_node_id(node_id) error
where node_id is null

-- test: not_null_silver_gpu_samples_owner_kind(owner_kind) error
where owner_kind is null

-- test: not_null_silver_gpu_samples_sampled_at(sampled_at) error
where sampled_at is null

-- test: not_null_silver_gpu_samples_source(source) error
where source is null

-- test: not_null_silver_gpu_samples_unseen_energy_joules(unseen_energy_joules) error
where unseen_energy_joules is null

-- test: values_of_gpu_samples_can_be() error
where not (coalesce(covers_seconds, 0) >= 0 and coalesce(busy_ratio, 0) between 0 and 1 and coalesce(memory_busy_ratio, 0) between 0 and 1 and coalesce(encoder_busy_ratio, 0) between 0 and 1 and coalesce(decoder_busy_ratio, 0) between 0 and 1 and coalesce(sm_active_ratio, 0) between 0 and 1 and coalesce(sm_occupancy_ratio, 0) between 0 and 1 and coalesce(tensor_active_ratio, 0) between 0 and 1 and coalesce(dram_active_ratio, 0) between 0 and 1 and coalesce(graphics_active_ratio, 0) between 0 and 1 and coalesce(memory_used_bytes, 0) >= 0 and coalesce(memory_total_bytes, 0) >= 0 and coalesce(power_watts, 0) >= 0 and coalesce(power_limit_watts, 0) >= 0 and coalesce(energy_joules_total, 0) >= 0 and coalesce(temperature_celsius, 0) between -40 and 150 and coalesce(memory_temperature_celsius, 0) between -40 and 150 and coalesce(slowdown_temperature_celsius, 0) between -40 and 150 and coalesce(sm_clock_hertz, 0) >= 0 and coalesce(memory_clock_hertz, 0) >= 0 and coalesce(clock_event_reasons, 0) >= 0 and coalesce(power_violation_seconds_total, 0) >= 0 and coalesce(thermal_violation_seconds_total, 0) >= 0 and coalesce(ecc_corrected_total, 0) >= 0 and coalesce(ecc_uncorrected_total, 0) >= 0 and coalesce(ecc_corrected_lifetime_total, 0) >= 0 and coalesce(ecc_uncorrected_lifetime_total, 0) >= 0 and coalesce(remapped_rows_correctable, 0) >= 0 and coalesce(remapped_rows_uncorrectable, 0) >= 0 and coalesce(last_xid, 0) >= 0 and coalesce(pcie_rx_bytes_per_second, 0) >= 0 and coalesce(pcie_tx_bytes_per_second, 0) >= 0 and coalesce(pcie_replays_total, 0) >= 0 and coalesce(pcie_link_generation, 0) >= 0 and coalesce(pcie_link_width, 0) >= 0 and coalesce(nvlink_rx_bytes_per_second, 0) >= 0 and coalesce(nvlink_tx_bytes_per_second, 0) >= 0 and coalesce(nvlink_errors_total, 0) >= 0 and coalesce(nvlink_links_active, 0) >= 0 and coalesce(processes, 0) >= 0 and coalesce(energy_joules, 0) >= 0 and coalesce(unseen_energy_joules, 0) >= 0 and coalesce(implausible_values, 0) >= 0)
