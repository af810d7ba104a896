-- The jobs of every source.

select * from {{ ref('pai_jobs') }}
