-- Of several sources of one GPU the best one counts at a time, so that its time is counted once.

-- The many columns are read twice, where keeping them in between would take more memory than all else.
with reported as not materialized (

    select * from {{ ref('collected_gpu_samples') }}
    union all by name
    select * from {{ ref('dcgm_samples') }}
    union all by name
    select * from {{ ref('nvidia_smi_samples') }}
    union all by name
    select * from {{ ref('rocm_smi_samples') }}
    union all by name
    select * from {{ ref('exporter_samples') }}

),

nodes as (

    select * from {{ ref('silver_nodes') }}

),

parameters as (

    select * from {{ source('landed', 'parameters') }}

),

-- The same run may have landed by node and merged; of two sources at one instant the one that sees more counts.
once as not materialized (

    {{ newest(
        'reported', surrogate_key(['gpu_id', 'sampled_at']), 'preference asc, node_id asc, host_id asc nulls last'
    ) }}

),

cleaned as not materialized (

    select
        * replace (
            {% for name, type in gpu_measures() -%}
                case when {{ is_plausible(name) }} then cast({{ name }} as {{ type }}) end as {{ name }}
                {{- ',' if not loop.last }}
            {% endfor %}
        ),
        {{ implausible_values(gpu_measures() | map('first') | list) }} as implausible_values
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

    {{ covering('several', ['gpu_id', 'preference']) }}

),

seen_until as (

    select
        row_key,
        sampled_at,
        case preference
            {% for better in [1, 2, 3] -%}
                when {{ better + 1 }}
                    then
                        max(case when preference <= {{ better }} then {{ later('sampled_at', 'covers_seconds') }} end)
                            over (partition by gpu_id order by sampled_at)
            {% endfor -%}
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

    {{ covering('needed', ['gpu_id'], {'next_energy_joules_total': 'energy_joules_total'}) }}

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
        {{ rate('timed.next_energy_joules_total', 'timed.energy_joules_total', 'timed.gap_seconds') }} as counted_watts,
        -- What is in use has an owner, though the source names none.
        coalesce(timed.owner_kind, 'nobody') = 'nobody'
        and (
            coalesce(coalesce(timed.gpu_busy_ratio, timed.graphics_active_ratio) >= parameters.idle_gpu_ratio, false)
            or coalesce(timed.memory_used_bytes >= {{ memory_of_a_user() }}, false)
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
        {% for name, type in gpu_measures() if name != 'gpu_busy_ratio' -%}
            measured.{{ name }},
        {% endfor -%}
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
