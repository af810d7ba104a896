-- The jobs of every source.

select * from __dbt__cte__pai_jobs
union all
select * from __dbt__cte__run_jobs
