-- Counters since the driver was loaded begin anew with it; those of a board's life do not, so that the larger of what
-- both grew by counts. What a counter grew by is of the day of the later sample.

-- Not materialized: of the many columns few are needed.
with samples as not materialized (

    select
        *,
        cast(floor((epoch_us(sampled_at) / 1e6) / 900) as bigint) as quarter
    from "lake"."main"."silver_gpu_samples"

),

xids as (

    select * from "lake"."main"."silver_node_events"
    where kind = 'xid'

),

known as (

    select * from "landed"."main"."known_clusters"

),

days as (

    select * from __dbt__cte__sample_days

),

dated as not materialized (

    select
        samples.*,
        days.dt
    from samples
    inner join days on samples.cluster_id = days.cluster_id and samples.quarter = days.quarter

),

-- Most counters stand still: only samples of GPUs of which one moved are put in order of time.
moved as (

    select gpu_id
    from samples
    group by gpu_id
    having
        min(last_xid) < max(last_xid)
        or min(ecc_corrected_total) < max(ecc_corrected_total)
        or min(ecc_uncorrected_total) < max(ecc_uncorrected_total)
        or min(pcie_replays_total) < max(pcie_replays_total)
        or min(nvlink_errors_total) < max(nvlink_errors_total)
        or min(ecc_corrected_lifetime_total) < max(ecc_corrected_lifetime_total)
        or min(ecc_uncorrected_lifetime_total) < max(ecc_uncorrected_lifetime_total)
        or min(remapped_rows_correctable) < max(remapped_rows_correctable)
        or min(remapped_rows_uncorrectable) < max(remapped_rows_uncorrectable)
        
),

followed as not materialized (

    select
        *,
        lag(ecc_corrected_total ignore nulls) over by_time as ecc_corrected_before,
        lag(ecc_uncorrected_total ignore nulls) over by_time as ecc_uncorrected_before,
        lag(pcie_replays_total ignore nulls) over by_time as pcie_replays_before,
        lag(nvlink_errors_total ignore nulls) over by_time as nvlink_errors_before,
        lag(ecc_corrected_lifetime_total ignore nulls) over by_time as ecc_corrected_lifetime_before,
        lag(ecc_uncorrected_lifetime_total ignore nulls) over by_time as ecc_uncorrected_lifetime_before,
        lag(remapped_rows_correctable ignore nulls) over by_time as remapped_correctable_before,
        lag(remapped_rows_uncorrectable ignore nulls) over by_time as remapped_uncorrectable_before,
        lag(last_xid ignore nulls) over by_time as xid_before
    from dated
    where gpu_id in (select moved.gpu_id from moved)
    window by_time as (partition by gpu_id order by sampled_at)

    union all by name

    select * from dated
    where gpu_id not in (select moved.gpu_id from moved)

),

counted as (

    select
        cluster_id,
        dt,
        gpu_id,
        max(node_id) as node_id,
        max(gpu_index) as gpu_index,
        max(gpu_name) as gpu_name,
        least(
                coalesce(sum(case when ecc_corrected_total >= ecc_corrected_before then ecc_corrected_total - ecc_corrected_before else ecc_corrected_total end) filter (where ecc_corrected_before is not null), 0),
                1000000000000000
            ) as ecc_corrected,
        least(
                coalesce(sum(case when ecc_uncorrected_total >= ecc_uncorrected_before then ecc_uncorrected_total - ecc_uncorrected_before else ecc_uncorrected_total end) filter (where ecc_uncorrected_before is not null), 0),
                1000000000000000
            ) as ecc_uncorrected,
        least(
                coalesce(sum(case when pcie_replays_total >= pcie_replays_before then pcie_replays_total - pcie_replays_before else pcie_replays_total end) filter (where pcie_replays_before is not null), 0),
                1000000000000000
            ) as pcie_replays,
        least(
                coalesce(sum(case when nvlink_errors_total >= nvlink_errors_before then nvlink_errors_total - nvlink_errors_before else nvlink_errors_total end) filter (where nvlink_errors_before is not null), 0),
                1000000000000000
            ) as nvlink_errors,
        least(coalesce(sum(greatest(ecc_corrected_lifetime_total - ecc_corrected_lifetime_before, 0)), 0), 1000000000000000) as ecc_corrected_lifetime,
        least(coalesce(sum(greatest(ecc_uncorrected_lifetime_total - ecc_uncorrected_lifetime_before, 0)), 0), 1000000000000000) as ecc_uncorrected_lifetime,
        least(coalesce(sum(greatest(remapped_rows_correctable - remapped_correctable_before, 0)), 0), 1000000000000000) as remapped_correctable,
        least(coalesce(sum(greatest(remapped_rows_uncorrectable - remapped_uncorrectable_before, 0)), 0), 1000000000000000) as remapped_uncorrectable,
        max(remapped_rows_correctable) as remapped_rows_correctable,
        max(remapped_rows_uncorrectable) as remapped_rows_uncorrectable,
        coalesce(bool_or(has_remap_pending), false) as has_remap_pending,
        coalesce(bool_or(has_remap_failure), false) as has_remap_failure
    from followed
    group by cluster_id, dt, gpu_id

),

places as (

    select
        node_id,
        nullif(regexp_extract(lower(pci_bus_id), '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})', 1), '') as pci_address,
        min(gpu_id) as gpu_id
    from samples
    where parent_gpu_id is null and pci_bus_id is not null
    group by node_id, pci_address

),

zoned_xids as (

    select
        xids.*,
        nullif(regexp_extract(lower(xids.subject), '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})', 1), '') as pci_address,
        coalesce(known.time_zone, 'UTC') as time_zone
    from xids
    left join known on xids.cluster_id = known.cluster_id

),

-- The kernel names a GPU by its PCI bus address; an address without a known GPU is kept as its name.
placed_xids as (

    select
        zoned_xids.*,
        coalesce(places.gpu_id, zoned_xids.subject, 'unknown') as gpu_id
    from zoned_xids
    left join places on zoned_xids.node_id = places.node_id and zoned_xids.pci_address = places.pci_address

),

told_xids as (

    select
        cluster_id,
        cast(timezone(time_zone, happened_at) as date) as dt,
        gpu_id,
        node_id,
        coalesce(code, 0) as code,
        count(*) as events
    from placed_xids
    group by all

),

-- An exporter shows only the last Xid: each change of it was one.
shown_xids as (

    select
        cluster_id,
        dt,
        gpu_id,
        node_id,
        last_xid as code,
        count(*) as events
    from followed
    where last_xid > 0 and last_xid != xid_before
    group by cluster_id, dt, gpu_id, node_id, last_xid

),

xid_codes as (

    select * from told_xids
    union all by name
    select shown_xids.* from shown_xids
    anti join told_xids
        on
            shown_xids.cluster_id = told_xids.cluster_id
            and shown_xids.dt = told_xids.dt
            and shown_xids.gpu_id = told_xids.gpu_id

),

xid_days as (

    select
        cluster_id,
        dt,
        gpu_id,
        max(node_id) as node_id,
        cast(sum(events) as bigint) as xid_events,
        '{' || string_agg('"' || code || '": ' || events, ', ' order by code) || '}' as xid_counts
    from (
        select
            cluster_id,
            dt,
            gpu_id,
            max(node_id) as node_id,
            code,
            sum(events) as events
        from xid_codes
        group by cluster_id, dt, gpu_id, code
    ) as by_code
    group by cluster_id, dt, gpu_id

),

joined as (

    select
        coalesce(counted.cluster_id, xid_days.cluster_id) as cluster_id,
        coalesce(counted.dt, xid_days.dt) as dt,
        coalesce(counted.node_id, xid_days.node_id) as node_id,
        coalesce(counted.gpu_id, xid_days.gpu_id) as gpu_id,
        counted.gpu_index,
        counted.gpu_name,
        cast(greatest(coalesce(counted.ecc_corrected, 0), coalesce(counted.ecc_corrected_lifetime, 0)) as bigint)
            as ecc_corrected,
        cast(greatest(coalesce(counted.ecc_uncorrected, 0), coalesce(counted.ecc_uncorrected_lifetime, 0)) as bigint)
            as ecc_uncorrected,
        cast(coalesce(counted.remapped_correctable, 0) as bigint) as newly_remapped_correctable,
        cast(coalesce(counted.remapped_uncorrectable, 0) as bigint) as newly_remapped_uncorrectable,
        counted.remapped_rows_correctable,
        counted.remapped_rows_uncorrectable,
        coalesce(counted.has_remap_pending, false) as has_remap_pending,
        coalesce(counted.has_remap_failure, false) as has_remap_failure,
        coalesce(xid_days.xid_events, 0) as xid_events,
        coalesce(xid_days.xid_counts, '{}') as xid_counts,
        cast(coalesce(counted.pcie_replays, 0) as bigint) as pcie_replays,
        cast(coalesce(counted.nvlink_errors, 0) as bigint) as nvlink_errors
    from counted
    full join xid_days
        on
            counted.cluster_id = xid_days.cluster_id
            and counted.dt = xid_days.dt
            and counted.gpu_id = xid_days.gpu_id

),

summed as (

    select
        *,
        ecc_corrected + ecc_uncorrected + newly_remapped_correctable + newly_remapped_uncorrectable + xid_events
        + pcie_replays + nvlink_errors as errors,
        ecc_uncorrected + newly_remapped_uncorrectable + xid_events as serious_errors
    from joined

),

compared as (

    select
        *,
        median(errors) over (
            partition by cluster_id, gpu_id
            order by dt rows between unbounded preceding and unbounded following exclude current row
        ) as usual_errors_of_gpu,
        median(errors) over (partition by cluster_id) as usual_errors_of_fleet
    from summed

),

-- At least ten times the usual number and at least ten; for errors that cost work, anything above the usual.
final as (

    select
        *,
        errors >= 10 * greatest(coalesce(usual_errors_of_gpu, 0), usual_errors_of_fleet, 1)
        or (serious_errors > 0 and errors > greatest(coalesce(usual_errors_of_gpu, 0), usual_errors_of_fleet))
            as is_spike
    from compared

)

select * from final
order by cluster_id, dt, gpu_id

-- test: a_gpu_has_its_errors_once_a_day() error
select cluster_id, dt, gpu_id
from "lake"."main"."gold_gpu_errors_daily"
group by cluster_id, dt, gpu_id
having count(*) > 1

-- test: every_xid_is_on_a_gpu_and_a_day() warn
select cluster_id
from (
    select cluster_id, xid_events as here, 0e0 as there from "lake"."main"."gold_gpu_errors_daily"
    union all
    select cluster_id, 0e0 as here, xid_events as there from (select cluster_id, 1 as xid_events from "lake"."main"."silver_node_events" where kind = 'xid')
) as both_sides
group by cluster_id
having abs(sum(here) - sum(there)) > 0.001 * sum(there) + 0.000001

-- test: in_range_gold_gpu_errors_daily_0__ecc_corrected(ecc_corrected) error
where false
    or ecc_corrected < 0

-- test: in_range_gold_gpu_errors_daily_0__ecc_uncorrected(ecc_uncorrected) error
where false
    or ecc_uncorrected < 0

-- test: in_range_gold_gpu_errors_daily_0__errors(errors) error
where false
    or errors < 0

-- test: in_range_gold_gpu_errors_daily_0__newly_remapped_correctable(newly_remapped_correctable) error
where false
    or newly_remapped_correctable < 0

-- test: in_range_gold_gpu_errors_daily_0__newly_remapped_uncorrectable(newly_remapped_uncorrectable) error
where false
    or newly_remapped_uncorrectable < 0

-- test: in_range_gold_gpu_errors_daily_0__nvlink_errors(nvlink_errors) error
where false
    or nvlink_errors < 0

-- test: in_range_gold_gpu_errors_daily_0__pcie_replays(pcie_replays) error
where false
    or pcie_replays < 0

-- test: in_range_gold_gpu_errors_daily_0__remapped_rows_correctable(remapped_rows_correctable) error
where false
    or remapped_rows_correctable < 0

-- test: in_range_gold_gpu_errors_daily_0__remapped_rows_uncorrectable(remapped_rows_uncorrectable) error
where false
    or remapped_rows_uncorrectable < 0

-- test: in_range_gold_gpu_errors_daily_0__serious_errors(serious_errors) error
where false
    or serious_errors < 0

-- test: in_range_gold_gpu_errors_daily_0__usual_errors_of_fleet(usual_errors_of_fleet) error
where false
    or usual_errors_of_fleet < 0

-- test: in_range_gold_gpu_errors_daily_0__usual_errors_of_gpu(usual_errors_of_gpu) error
where false
    or usual_errors_of_gpu < 0

-- test: in_range_gold_gpu_errors_daily_0__xid_events(xid_events) error
where false
    or xid_events < 0

-- test: not_null_gold_gpu_errors_daily_cluster_id(cluster_id) error
where cluster_id is null

-- test: not_null_gold_gpu_errors_daily_dt(dt) error
where dt is null

-- test: not_null_gold_gpu_errors_daily_ecc_corrected(ecc_corrected) error
where ecc_corrected is null

-- test: not_null_gold_gpu_errors_daily_ecc_uncorrected(ecc_uncorrected) error
where ecc_uncorrected is null

-- test: not_null_gold_gpu_errors_daily_errors(errors) error
where errors is null

-- test: not_null_gold_gpu_errors_daily_gpu_id(gpu_id) error
where gpu_id is null

-- test: not_null_gold_gpu_errors_daily_has_remap_failure(has_remap_failure) error
where has_remap_failure is null

-- test: not_null_gold_gpu_errors_daily_has_remap_pending(has_remap_pending) error
where has_remap_pending is null

-- test: not_null_gold_gpu_errors_daily_is_spike(is_spike) error
where is_spike is null

-- test: not_null_gold_gpu_errors_daily_newly_remapped_correctable(newly_remapped_correctable) error
where newly_remapped_correctable is null

-- test: not_null_gold_gpu_errors_daily_newly_remapped_uncorrectable(newly_remapped_uncorrectable) error
where newly_remapped_uncorrectable is null

-- test: not_null_gold_gpu_errors_daily_nvlink_errors(nvlink_errors) error
where nvlink_errors is null

-- test: not_null_gold_gpu_errors_daily_pcie_replays(pcie_replays) error
where pcie_replays is null

-- test: not_null_gold_gpu_errors_daily_serious_errors(serious_errors) error
where serious_errors is null

-- test: not_null_gold_gpu_errors_daily_usual_errors_of_fleet(usual_errors_of_fleet) error
where usual_errors_of_fleet is null

-- test: not_null_gold_gpu_errors_daily_xid_counts(xid_counts) error
where xid_counts is null

-- test: not_null_gold_gpu_errors_daily_xid_events(xid_events) error
where xid_events is null
