-- The tasks of every source, as planned.

select * from __dbt__cte__pai_plans
union all
select * from __dbt__cte__run_plans
