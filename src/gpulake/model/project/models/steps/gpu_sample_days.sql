-- Streamed: samples of GPUs by the day of their cluster's zone; what a sample stands for beyond midnight is of the next
-- day. Each reader needs few of the many columns.

with samples as not materialized (

    select
        *,
        {{ quarter_number('sampled_at') }} as quarter,
        {{ later('sampled_at', 'covers_seconds') }} as covers_until
    from {{ ref('silver_gpu_samples') }}

),

days as (

    select * from {{ ref('sample_days') }}

),

dated as not materialized (

    select
        samples.*,
        days.dt,
        days.day_ended_at,
        days.time_zone
    from samples
    inner join days on samples.cluster_id = days.cluster_id and samples.quarter = days.quarter

)

-- No sample stands for more than two hours, so that there is one midnight at most.
select
    *,
    case
        when covers_until > day_ended_at then {{ seconds_of('day_ended_at') }} - {{ seconds_of('sampled_at') }}
        else covers_seconds
    end as seconds
from dated

union all by name

select
    * replace (
        {{ next_day('dt') }} as dt
    ),
    {{ seconds_of('covers_until') }} - {{ seconds_of('day_ended_at') }} as seconds
from dated
where covers_until > day_ended_at
