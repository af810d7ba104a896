-- The attempts of every source.

select * from __dbt__cte__pai_attempts
        union all
    select * from __dbt__cte__philly_attempts
        union all
    select * from __dbt__cte__pool_attempts
        union all
    select * from __dbt__cte__slurm_attempts
