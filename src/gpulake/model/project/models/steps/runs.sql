-- Every time that a job was run, of all sources but PAI; one row for a job that never was.

select * from {{ ref('acme_runs') }}
union all
select * from {{ ref('helios_runs') }}
union all
select * from {{ ref('openb_runs') }}
union all
select * from {{ ref('opendc_runs') }}
union all
select * from {{ ref('philly_runs') }}
union all
select * from {{ ref('slurm_runs') }}
