-- When objects of a kind in a namespace were listed, and when next: what the next list lacks is gone. A pull says what
-- it listed. Of what was saved by hand, a list with objects of several namespaces is of all, another of its own one.

with objects as (

    select
        *,
        coalesce(namespace, '') as listed_namespace
    from __dbt__cte__kubernetes_rows
    where is_list

),

snapshots as (

    select
        cluster_id,
        seen_at,
        max(',' || listed_kinds || ',') as kinds,
        max(',' || listed_namespaces || ',') as namespaces,
        count(distinct namespace) > 1 as is_of_all
    from objects
    group by cluster_id, seen_at

),

places as (

    select distinct
        cluster_id,
        kind,
        listed_namespace
    from objects

),

present as (

    select distinct
        cluster_id,
        seen_at,
        kind,
        listed_namespace
    from objects

),

kinds as (

    select distinct
        cluster_id,
        seen_at,
        kind
    from objects

),

listed as (

    select * from present

    union

    select
        places.cluster_id,
        snapshots.seen_at,
        places.kind,
        places.listed_namespace
    from places
    inner join snapshots on places.cluster_id = snapshots.cluster_id
    left join kinds
        on places.cluster_id = kinds.cluster_id and snapshots.seen_at = kinds.seen_at and places.kind = kinds.kind
    where
        case
            when snapshots.kinds is null then snapshots.is_of_all and kinds.kind is not null
            else
                snapshots.kinds like '%,' || places.kind || ',%'
                and (
                    snapshots.namespaces = ',*,'
                    or places.listed_namespace = ''
                    or snapshots.namespaces like '%,' || places.listed_namespace || ',%'
                )
        end

)

select
    *,
    lead(seen_at) over (partition by cluster_id, kind, listed_namespace order by seen_at) as next_at
from listed
