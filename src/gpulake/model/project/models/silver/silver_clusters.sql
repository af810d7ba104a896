-- Times are instants; the days and hours of a cluster are those of its own time zone.

select
    {{ trace_cluster() }} as cluster_id,
    {{ trace_time_zone() }} as time_zone
