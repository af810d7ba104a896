-- Every time that a job was run, of all sources but PAI; one row for a job that never was.

select * from __dbt__cte__acme_runs
        union all
    select * from __dbt__cte__helios_runs
        union all
    select * from __dbt__cte__kubernetes_runs
        union all
    select * from __dbt__cte__openb_runs
        union all
    select * from __dbt__cte__opendc_runs
        union all
    select * from __dbt__cte__philly_runs
        union all
    select * from __dbt__cte__slurm_runs
        union all
    select * from __dbt__cte__swf_runs
