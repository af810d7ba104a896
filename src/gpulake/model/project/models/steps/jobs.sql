-- The jobs of every source.

select * from {{ ref('pai_jobs') }}
union all
select * from {{ ref('run_jobs') }}
