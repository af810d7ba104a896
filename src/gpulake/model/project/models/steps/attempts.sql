-- The attempts of every source.

select * from {{ ref('pai_attempts') }}
