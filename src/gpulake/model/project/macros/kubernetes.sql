{# Words of Kubernetes and of what runs on it, in those of silver. #}

{# Why a pod was stopped by something other than its own containers: its status, its condition DisruptionTarget, or an event. #}
{% macro kubernetes_stop(reason) -%}
    case
        when {{ reason }} = 'DeadlineExceeded' then 'timeout'
        when
            {{ reason }} in (
                'Evicted', 'EvictionByEvictionAPI', 'Preempted', 'Preempting', 'PreemptionByScheduler',
                'PreemptionByKubeScheduler', 'TerminationByKubelet'
            )
            then 'interrupted'
        when
            {{ reason }} in (
                'DeletionByPodGC', 'DeletionByTaintManager', 'NodeLost', 'NodeShutdown', 'Shutdown', 'TaintManagerEviction',
                'Terminated'
            )
            then 'node_fail'
    end
{%- endmacro %}

{# What a job of any kind says of itself; nothing while its pods say more. #}
{% macro kubernetes_job_end(state, reason) -%}
    case
        when {{ state }} in ('Complete', 'Completed', 'Succeeded', 'Finished', 'SUCCEEDED') then 'succeeded'
        when {{ state }} in ('Failed', 'FAILED') and {{ reason }} = 'DeadlineExceeded' then 'timeout'
        when {{ state }} in ('Failed', 'FAILED') then 'failed'
        when {{ state }} in ('Aborted', 'STOPPED', 'Terminated') then 'cancelled'
    end
{%- endmacro %}

{# Kinds whose pods are one job. Pods of services, notebooks and daemons are jobs of their own; of a CronJob, each Job is. #}
{% macro is_kubernetes_job(kind) -%}
    coalesce(
        ({{ kind }} like '%Job' and {{ kind }} != 'CronJob')
        or {{ kind }} in ('AppWrapper', 'JobSet', 'PipelineRun', 'RayCluster', 'SparkApplication', 'TaskRun', 'Workflow'),
        false
    )
{%- endmacro %}

{# The id of the job that an object is. #}
{% macro kubernetes_job_id(namespace, name, uid) -%}
    {{ namespace }} || '/' || {{ name }} || '/' || left({{ uid }}, 8)
{%- endmacro %}

{# Why something waits, in a word or two: what the scheduler lacks, or Kueue. #}
{% macro kubernetes_wait(reason, message) -%}
    case
        when {{ has_match(message, "'Insufficient [a-z0-9]'") }}
            then 'Insufficient ' || {{ extract_text(message, 'Insufficient ([a-z0-9./-]*[a-z0-9])') }}
        when {{ message }} like '%quota%' then 'Quota'
        when {{ message }} like '%untolerated taint%' then 'Taint'
        when {{ message }} like '%affinity%' or {{ message }} like '%selector%' then 'NodeAffinity'
        else {{ reason }}
    end
{%- endmacro %}

{# The last words for why each object waited. #}
{% macro last_waits(relation) %}
    select
        cluster_id,
        uid,
        owner_uid,
        {{ kubernetes_wait('waiting_reason', 'waiting_message') }} as wait_reason,
        waiting_message as wait_message
    from {{ relation }}
    where waiting_reason is not null
    qualify
        row_number() over (partition by cluster_id, uid order by seen_at desc, waiting_message asc, waiting_reason asc) = 1
{% endmacro %}

{# The latest row of each object. Every object is in every snapshot of
   its life: sorting them all would take long. #}
{% macro latest_objects(relation) %}
    select {{ relation }}.*
    from {{ relation }}
    inner join (
        select
            cluster_id,
            uid,
            max(seen_at) as seen_at
        from {{ relation }}
        group by cluster_id, uid
    ) as last_seen
        on
            {{ relation }}.cluster_id = last_seen.cluster_id
            and {{ relation }}.uid = last_seen.uid
            and {{ relation }}.seen_at = last_seen.seen_at
    qualify
        row_number() over (
            partition by {{ relation }}.cluster_id, {{ relation }}.uid order by {{ whole_row(relation) }}
        ) = 1
{% endmacro %}

{# The instant half-way between two; nothing if either is unknown. #}
{% macro halfway(earlier, later) %}{{ instant('(' ~ seconds_of(earlier) ~ ' + ' ~ seconds_of(later) ~ ') / 2') }}{% endmacro %}
