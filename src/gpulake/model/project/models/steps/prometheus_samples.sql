-- Streamed: samples of Prometheus pages, with their node and their time. A node is named by a label, by its own uname
-- or, where nothing says it, by the file. A time is the sample's own, that of the node's clock on the page, or the
-- file's.

with samples as not materialized (

    select * from {{ source('landed', 'bronze_prometheus_samples') }}
    where
        metric like 'DCGM\_%' escape '\'
        or metric like 'node\_%' escape '\'
        -- Other exporters of GPUs.
        or metric like 'nvidia\_smi\_%' escape '\'
        or metric like 'gpu\_%' escape '\'
        or metric like 'amd\_gpu\_%' escape '\'
        or metric like 'hw\_%' escape '\'

),

pages as (

    select
        file,
        folder,
        file_at,
        max(case when metric = 'node_uname_info' then {{ json_text('labels', 'nodename') }} end) as node_name,
        max(case when metric = 'node_time_seconds' and value between 0 and 4102444800 then value end) as page_seconds
    from samples
    where metric in ('node_uname_info', 'node_time_seconds')
    group by file, folder, file_at

),

-- Few series have many samples: their labels are parsed once.
labelled as (

    select
        labels,
        coalesce(
            nullif({{ json_text('labels', 'Hostname') }}, ''),
            nullif({{ json_text('labels', 'hostname') }}, ''),
            nullif({{ json_text('labels', 'host_name') }}, '')
        ) as host_name,
        {{ extract_text(json_text('labels', 'instance'), '^(.+?)(:[0-9]+)?$') }} as address
    from samples
    group by labels

),

-- A Prometheus that scrapes addresses tells by which name the host behind each of them calls itself.
hosts as (

    select
        {{ extract_text(json_text('labels', 'instance'), '^([0-9.]+|\\[.*\\])(:[0-9]+)?$') }} as address,
        max(nullif({{ json_text('labels', 'nodename') }}, '')) as node_name
    from samples
    where metric = 'node_uname_info'
    group by address

),

series as (

    select
        labelled.labels,
        coalesce(labelled.host_name, hosts.node_name, labelled.address) as node_name
    from labelled
    left join hosts on labelled.address = hosts.address

)

select
    samples.metric,
    samples.labels,
    {{ finite('samples.value') }} as value,
    coalesce(
        series.node_name,
        nullif(pages.node_name, ''),
        -- By a case, for the rows that need it only.
        case when series.node_name is null then {{ stem('samples.file') }} end
    ) as node_id,
    coalesce(
        {{ instant('samples.ts_ms / 1000') }}, {{ instant('pages.page_seconds') }}, samples.file_at
    ) as sampled_at
from samples
left join series on samples.labels is not distinct from series.labels
left join pages
    on
        samples.file = pages.file
        and samples.folder is not distinct from pages.folder
        and samples.file_at = pages.file_at
