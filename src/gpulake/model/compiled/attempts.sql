-- The attempts of every source but PAI, which numbers its own: millions have no other of their instance.

select * from __dbt__cte__kubernetes_attempts
        union all
    select * from __dbt__cte__philly_attempts
        union all
    select * from __dbt__cte__pool_attempts
        union all
    select * from __dbt__cte__slurm_attempts
