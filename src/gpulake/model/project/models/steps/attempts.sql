-- The attempts of every source.

select * from {{ ref('pai_attempts') }}
union all
select * from {{ ref('pool_attempts') }}
union all
select * from {{ ref('philly_attempts') }}
union all
select * from {{ ref('slurm_attempts') }}
