-- Samples of GPUs by the day of their cluster's zone; what a sample stands for beyond midnight is of the next day.

with samples as (

    select * from {{ ref('silver_gpu_samples') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

zoned as (

    select
        samples.*,
        {{ later('samples.sampled_at', 'samples.covers_seconds') }} as covers_until,
        coalesce(known.time_zone, 'UTC') as time_zone
    from samples
    left join known on samples.cluster_id = known.cluster_id

),

dated as (

    select
        *,
        {{ local_day('sampled_at', 'time_zone') }} as first_day,
        {{ local_day('covers_until', 'time_zone') }} as last_day
    from zoned

),

spread as (

    select
        *,
        {{ each_day('first_day', 'last_day') }} as dt
    from dated
    where last_day > first_day

),

cut as (

    select
        *,
        {{ seconds_of(earliest(['covers_until', day_begin(next_day('dt'), 'time_zone')])) }}
        - {{ seconds_of(latest(['sampled_at', day_begin('dt', 'time_zone')])) }} as seconds
    from spread

)

select
    *,
    first_day as dt,
    covers_seconds as seconds
from dated
where last_day = first_day

union all by name

select * from cut
where seconds > 0 or dt = first_day
