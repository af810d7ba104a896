-- Counters since the driver was loaded begin anew with it; those of a board's life do not, so that the larger of what
-- both grew by counts. What a counter grew by is of the day of the later sample.

{% set counters = {
    'ecc_corrected': 'ecc_corrected_total', 'ecc_uncorrected': 'ecc_uncorrected_total',
    'pcie_replays': 'pcie_replays_total', 'nvlink_errors': 'nvlink_errors_total'
} -%}
{% set lives = {
    'ecc_corrected_lifetime': 'ecc_corrected_lifetime_total', 'ecc_uncorrected_lifetime': 'ecc_uncorrected_lifetime_total',
    'remapped_correctable': 'remapped_rows_correctable', 'remapped_uncorrectable': 'remapped_rows_uncorrectable'
} -%}

-- Not materialized: of the many columns few are needed.
with samples as not materialized (

    select
        *,
        {{ quarter_number('sampled_at') }} as quarter
    from {{ ref('silver_gpu_samples') }}

),

xids as (

    select * from {{ ref('silver_node_events') }}
    where kind = 'xid'

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

days as (

    select * from {{ ref('sample_days') }}

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
        {% for counter in dict(counters, **lives).values() -%}
            or min({{ counter }}) < max({{ counter }})
        {% endfor %}
),

followed as not materialized (

    select
        *,
        {% for name, counter in dict(counters, **lives).items() -%}
            lag({{ counter }} ignore nulls) over by_time as {{ name }}_before,
        {% endfor -%}
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
        {% for name, counter in counters.items() -%}
            least(
                coalesce(sum({{ growth(counter, name ~ '_before') }}) filter (where {{ name }}_before is not null), 0),
                {{ most_errors() }}
            ) as {{ name }},
        {% endfor -%}
        {% for name, counter in lives.items() -%}
            least(coalesce(sum(greatest({{ counter }} - {{ name }}_before, 0)), 0), {{ most_errors() }}) as {{ name }},
        {% endfor -%}
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
        {{ pci_address('pci_bus_id') }} as pci_address,
        min(gpu_id) as gpu_id
    from samples
    where parent_gpu_id is null and pci_bus_id is not null
    group by node_id, pci_address

),

zoned_xids as (

    select
        xids.*,
        {{ pci_address('xids.subject') }} as pci_address,
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
        {{ local_day('happened_at', 'time_zone') }} as dt,
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
        '{' || {{ joined_texts("'\"' || code || '\": ' || events", 'code') }} || '}' as xid_counts
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
        {{ median('errors') }} over (
            partition by cluster_id, gpu_id
            order by dt rows between unbounded preceding and unbounded following exclude current row
        ) as usual_errors_of_gpu,
        {{ median('errors') }} over (partition by cluster_id) as usual_errors_of_fleet
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
