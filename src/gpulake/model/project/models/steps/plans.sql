-- The tasks of every source, as planned.

select * from {{ ref('pai_plans') }}
union all
select * from {{ ref('run_plans') }}
