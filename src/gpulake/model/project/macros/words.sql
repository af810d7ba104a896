{# Values of the sources translated to those of silver. #}

{% macro pai_status(column) -%}
    case {{ column }}
        when 'Terminated' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Interrupted' then 'interrupted'
        when 'Running' then 'running'
        when 'Waiting' then 'waiting'
        else 'unknown'
    end
{%- endmacro %}

{# Slurm's states, which AcmeTrace and Helios keep. Who requeues or resizes a job begins a new row for what follows. #}
{% macro slurm_status(column) -%}
    case
        when {{ column }} = 'COMPLETED' then 'succeeded'
        when {{ column }} in ('FAILED', 'OUT_OF_MEMORY', 'LAUNCH_FAILED', 'RECONFIG_FAIL') then 'failed'
        when {{ column }} in ('NODE_FAIL', 'BOOT_FAIL') then 'node_fail'
        when {{ column }} in ('TIMEOUT', 'DEADLINE') then 'timeout'
        when {{ column }} in ('PREEMPTED', 'REQUEUED', 'REVOKED') then 'interrupted'
        when {{ column }} = 'CANCELLED' or {{ column }} like 'CANCELLED by %' then 'cancelled'
        when
            {{ column }} in (
                'RUNNING', 'COMPLETING', 'CONFIGURING', 'POWER_UP_NODE', 'RESIZING', 'SIGNALING', 'STAGE_OUT', 'STOPPED',
                'SUSPENDED'
            )
            then 'running'
        when
            {{ column }} in (
                'PENDING', 'REQUEUE_FED', 'REQUEUE_HOLD', 'RESV_DEL_HOLD', 'SPECIAL_EXIT', 'EXPEDITING'
            )
            then 'waiting'
        else 'unknown'
    end
{%- endmacro %}

{% macro philly_status(column) -%}
    case {{ column }}
        when 'Pass' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Killed' then 'cancelled'
        else 'unknown'
    end
{%- endmacro %}

{% macro openb_status(column) -%}
    case {{ column }}
        when 'Succeeded' then 'succeeded'
        when 'Failed' then 'failed'
        when 'Running' then 'running'
        when 'Pending' then 'waiting'
        else 'unknown'
    end
{%- endmacro %}

{# The cluster of a row of the PAI tables, from any of its ids: the ids of generated rows say so. #}
{% macro pai_cluster(column) %}case when {{ column }} like 'synth-%' then 'synth' else 'pai' end{% endmacro %}

{# An instant of the PAI trace; it writes 0 where it knows none. #}
{% macro pai_instant(column) %}{{ instant(finite('nullif(' ~ column ~ ', 0)')) }}{% endmacro %}

{# A count; one if it is unknown. #}
{% macro at_least_one(column) %}greatest(coalesce(cast({{ finite(column) }} as bigint), 1), 1){% endmacro %}

{% macro gibibytes(column) %}cast({{ finite(column) }} * 1073741824 as bigint){% endmacro %}

{# All that a status can be, the most final one first: of two rows about one thing the more final one counts. #}
{% macro statuses() -%}
    {{ return(['succeeded', 'failed', 'node_fail', 'timeout', 'interrupted', 'cancelled', 'running', 'waiting', 'unknown']) }}
{%- endmacro %}
{% macro status_rank(column) -%}
    case {{ column }}{% for status in statuses() %} when '{{ status }}' then {{ loop.index }}{% endfor %} end
{%- endmacro %}
{% macro status_of_rank(column) -%}
    case {{ column }}{% for status in statuses() %} when {{ loop.index }} then '{{ status }}'{% endfor %} end
{%- endmacro %}

{# Of the attempts of an instance. Tries that never got anywhere come last: they are still waiting. #}
{% macro attempt_number() -%}
    row_number() over (
        partition by instance_key
        order by
            coalesce(started_at, ended_at) asc nulls last, ended_at asc nulls last,
            {{ surrogate_key(['worker_key', 'machine_key', 'status']) }} asc
    )
{%- endmacro %}

{# Whether a job that has an end is over. #}
{% macro has_ended(column) %}{{ column }} not in ('running', 'waiting'){% endmacro %}

{# Failed or lost its node; timeouts and interruptions are separate. Used for ended jobs everywhere. #}
{% macro is_failed(column) %}{{ column }} in ('failed', 'node_fail'){% endmacro %}

{# Jobs of one name and one user are one job that comes back, unless the name says only how they were started: the command
   that srun was given, what sbatch calls a wrapped one, or an interactive session. #}
{% macro is_generic_name(column) -%}
    (
        lower({{ column }}) in (
            'allocation', 'batch', 'bash', 'csh', 'fish', 'interactive', 'ipython', 'jupyter', 'jupyter-lab',
            'jupyter-notebook', 'jupyterhub', 'jupyterlab', 'ksh', 'matlab', 'notebook', 'salloc', 'sbatch', 'sh', 'sleep',
            'spawner-jupyterhub', 'srun', 'tcsh', 'torchrun', 'tmux', 'wrap', 'zsh'
        )
        or {{ extract_text('lower(' ~ column ~ ')', '^(python[0-9.]*|sys/dashboard/.*)$') }} is not null
    )
{%- endmacro %}
{% macro recurrence_group(user, name) -%}
    coalesce({{ user }} || '/' || case when not {{ is_generic_name(name) }} then {{ name }} end, {{ user }})
{%- endmacro %}

{# The number of the hour in which a second lies. #}
{% macro hour_number(seconds, shift) %}cast(floor(({{ seconds }} + {{ shift }}) / 3600) as bigint){% endmacro %}

{# An instant, unless it lies on the wrong side of another that is known. #}
{% macro not_after(instant, bound) %}case when {{ bound }} is null or {{ instant }} <= {{ bound }} then {{ instant }} end{% endmacro %}
{% macro not_before(instant, bound) %}case when {{ instant }} >= {{ bound }} then {{ instant }} end{% endmacro %}

{# A job that ended before it began held nothing and has no attempt. #}
{% macro has_begun_or_may(started_at, status) %}({{ started_at }} is not null or {{ status }} in ('running', 'waiting')){% endmacro %}

{# PAI's machine ids, real or generated, are unique in themselves; those of others are names within a cluster. #}
{% macro machine_key(cluster, machine) -%}
    case
        when {{ cluster }} in ('pai', 'synth') then {{ surrogate_key([machine]) }}
        else {{ surrogate_key([cluster, machine]) }}
    end
{%- endmacro %}

{# The same of jobs. #}
{% macro job_key(cluster, job) -%}
    case when {{ cluster }} in ('pai', 'synth') then {{ surrogate_key([job]) }} else {{ surrogate_key([cluster, job]) }} end
{%- endmacro %}

{# Stands for all machines of a cluster, where a job's own machine is not known. #}
{% macro pool_key(cluster) %}{{ surrogate_key([cluster, "'(all machines)'"]) }}{% endmacro %}

{# The part of an interval, in hours, that lies in a numbered hour; its ends in seconds since the epoch. #}
{% macro hours_within(begin, end, number, shift) -%}
    (least({{ end }}, {{ number }} * 3600 + 3600 - {{ shift }}) - greatest({{ begin }}, {{ number }} * 3600 - {{ shift }})) / 3600
{%- endmacro %}

{# How many GPUs are asked for, all instances together; rounded, since sums of fractions come out a little off. #}
{% macro request_size(gpus) -%}
    case
        when round({{ gpus }}, 3) < 0.25 then '1: below 0.25'
        when round({{ gpus }}, 3) < 0.5 then '2: 0.25 to 0.5'
        when round({{ gpus }}, 3) < 1 then '3: 0.5 to 1'
        when round({{ gpus }}, 3) = 1 then '4: 1'
        when round({{ gpus }}, 3) < 8 then '5: above 1, below 8'
        when round({{ gpus }}, 3) < 64 then '6: 8 to 63'
        else '7: 64 and more'
    end
{%- endmacro %}

{# Whether the scheduler says that a machine is out of service. One that is being drained still runs its last jobs. #}
{% macro is_reported_down(condition) -%}
    {{ condition }} in ('drained', 'maintenance', 'failed', 'not_responding', 'down')
{%- endmacro %}

{# Seconds of a time limit of Slurm: days-hours:minutes:seconds, or minutes. #}
{% macro span_seconds(column) -%}
    coalesce(
        {{ try_number(column) }} * 60,
        coalesce({{ try_number(extract_text(column, '^([0-9]+)-')) }}, 0) * 86400
        + {{ try_number(extract_text(column, '([0-9]+):[0-9]+:[0-9]+$')) }} * 3600
        + {{ try_number(extract_text(column, '([0-9]+):[0-9]+$')) }} * 60
        + {{ try_number(extract_text(column, ':([0-9]+)$')) }}
    )
{%- endmacro %}

{# A job of Slurm, of a row of bronze_slurm_jobs. The tasks of an array that still wait are one job: the rest of it. The
   jobs of an array are built together: the last task that begins ends the waiting of the rest. The SQL of a .yml may
   name these. #}
{% macro slurm_cluster() %}coalesce(lower("Cluster"), 'slurm'){% endmacro %}
{% macro slurm_job() %}case when array_task_id like '[%' then array_job_id || '_[]' else job_id end{% endmacro %}
{% macro slurm_array() %}(coalesce(lower("Cluster"), 'slurm'), coalesce(array_job_id, job_id)){% endmacro %}

{# The cluster of Slurm's accounting, for what names none: the only one that has landed. #}
{% macro only_slurm_cluster() -%}
    (
        select case when count(distinct lower("Cluster")) = 1 then max(lower("Cluster")) end
        from {{ source('landed', 'bronze_slurm_jobs') }}
    )
{%- endmacro %}
