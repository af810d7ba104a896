-- The day in which each quarter of an hour with samples of GPUs lies, in its cluster's zone: no zone has another step.

with samples as (

    select * from {{ ref('silver_gpu_samples') }}

),

known as (

    select * from {{ source('landed', 'known_clusters') }}

),

quarters as (

    select distinct
        cluster_id,
        {{ quarter_number('sampled_at') }} as quarter
    from samples

),

zoned as (

    select
        quarters.cluster_id,
        quarters.quarter,
        coalesce(known.time_zone, 'UTC') as time_zone
    from quarters
    left join known on quarters.cluster_id = known.cluster_id

),

dated as (

    select
        *,
        {{ local_day(instant('quarter * 900'), 'time_zone') }} as dt
    from zoned

)

select
    *,
    {{ day_begin(next_day('dt'), 'time_zone') }} as day_ended_at
from dated
