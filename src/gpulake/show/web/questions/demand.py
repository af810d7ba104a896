"""Demand against capacity, by hour."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question

MOST_HOURS = 1_500  # a longer range is shown by the day
_SUMS = """
sum(submitted_tasks)::BIGINT AS submitted_tasks, sum(requested_gpus) AS requested_gpus,
sum(waiting_gpu_hours) AS waiting_gpu_hours, sum(held_gpu_hours) AS held_gpu_hours,
sum(available_gpu_hours) AS available_gpu_hours"""
# Hours of the cluster's time zone.
_LOCAL = """
WITH demand AS (
    SELECT gold_demand_hourly.*, (gold_demand_hourly.started_at AT TIME ZONE silver_clusters.time_zone) AS local_at
    FROM gold_demand_hourly INNER JOIN silver_clusters ON gold_demand_hourly.cluster_id = silver_clusters.cluster_id
    WHERE {days} AND {cluster:gold_demand_hourly.cluster_id} AND {gpu_type}
)
"""
_ABOUT = (
    "In GPU-hours. Held: by jobs, used or not. Waiting: requested by tasks between launch and start. Available: "
    "capacity that was not down. Hours of the cluster's time zone."
)

QUESTIONS = (
    Question(
        name="demand_over_time",
        title="Demand against capacity",
        sql=f"""
{_LOCAL},
span AS (SELECT count(DISTINCT local_at) <= {MOST_HOURS} AS is_hourly FROM demand)
SELECT
    strftime(date_trunc(CASE WHEN is_hourly THEN 'hour' ELSE 'day' END, local_at), '%Y-%m-%d %H:%M') AS begin,
    {_SUMS}
FROM demand CROSS JOIN span GROUP BY begin
""",
        order="begin",
        about=f"{_ABOUT} By the hour up to {MOST_HOURS:,} hours, else by the day.",
    ),
    Question(
        name="demand_by_hour_of_week",
        title="Busiest hours of the week",
        sql=f"""
{_LOCAL},
hours AS (SELECT isodow(local_at) AS weekday, hour(local_at) AS hour, local_at, {_SUMS} FROM demand GROUP BY ALL)
SELECT
    weekday, hour, count(*) AS hours, avg(submitted_tasks) AS submitted_tasks, avg(held_gpu_hours) AS held_gpu_hours,
    avg(waiting_gpu_hours) AS waiting_gpu_hours, avg(available_gpu_hours) AS available_gpu_hours,
    sum(held_gpu_hours + waiting_gpu_hours) / nullif(sum(available_gpu_hours), 0) AS demanded_ratio
FROM hours GROUP BY weekday, hour
""",
        order="weekday, hour",
        about=f"{_ABOUT} Means over the weeks; demanded: held and waiting, of available. Weekday 1 is Monday.",
    ),
    Question(
        name="demand_hours",
        title="Demand by hour and GPU type",
        sql=f"""
{_LOCAL}
SELECT
    cluster_id, dt AS day, strftime(local_at, '%Y-%m-%d %H:%M') AS begin, gpu_type, submitted_tasks, requested_gpus,
    waiting_gpu_hours, held_gpu_hours, available_gpu_hours
FROM demand
WHERE coalesce(isodow(local_at) = getvariable('weekday')::BIGINT, true)
    AND coalesce(hour(local_at) = getvariable('hour')::BIGINT, true)
""",
        order="begin, cluster_id, gpu_type",
        options=(
            Option("weekday", "1 (Monday) to 7", "integer"),
            Option("hour", "hour of the day, 0 to 23", "integer"),
        ),
        about=_ABOUT,
    ),
)
