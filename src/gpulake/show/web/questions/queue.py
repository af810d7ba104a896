"""How long work waits, and for what."""

from __future__ import annotations

from gpulake.show.web.questions import Option, Question

# The same classes as gold_queue_waits.
SIZES = ("below 0.25", "0.25 to 0.5", "0.5 to 1", "1", "above 1, below 8", "8 to 63", "64 and more")
STATES = ("started", "never_started", "waiting", "unknown")
PERCENTS = (50, 90, 95, 99)
BINS_PER_DECADE = 8
_SIZE = """
CASE
    WHEN gpus < 0.25 THEN 1 WHEN gpus < 0.5 THEN 2 WHEN gpus < 1 THEN 3 WHEN gpus = 1 THEN 4 WHEN gpus < 8 THEN 5
    WHEN gpus < 64 THEN 6 ELSE 7
END"""


def _tasks(only: str = "true") -> str:
    """Tasks that ask for GPUs, with what is asked about them.

    Days are those of the cluster's time zone: their ends are compared as instants, which is faster than a million
    conversions. Waiting tasks have no launch in some sources, and belong to every range.
    """
    return f"""
WITH bounds AS (
    SELECT cluster_id, min(started_at) AS begins_at, max(ended_at) AS ends_at FROM silver_days
    WHERE {{days}} AND {{cluster}} GROUP BY cluster_id
),
asked AS (
    SELECT
        silver_tasks.* EXCLUDE (gpu_type), coalesce(gpu_type, 'unknown') AS gpu_type,
        round(requested_gpus * coalesce(planned_instances, 1), 3) AS gpus,
        -- A negative wait is a clock error.
        CASE WHEN start_wait_seconds >= 0 THEN start_wait_seconds END AS wait_seconds,
        (epoch_us(ended_at) - epoch_us(started_at)) / 1e6 AS run_seconds,
        CASE
            WHEN status = 'waiting' THEN 'waiting'
            WHEN started_at IS NOT NULL THEN 'started'
            WHEN ended_at IS NOT NULL THEN 'never_started'
            ELSE 'unknown'
        END AS state
    FROM silver_tasks
    INNER JOIN bounds ON silver_tasks.cluster_id = bounds.cluster_id AND (
        status = 'waiting' OR (launched_at >= bounds.begins_at AND launched_at < bounds.ends_at)
    )
    WHERE requested_gpus > 0 AND {only}
    -- Skips most tasks of other days, in any time zone, before the exact comparison.
    [[from AND (status = 'waiting' OR launched_at >= getvariable('from')::DATE - 1)]]
    [[to AND (status = 'waiting' OR launched_at < getvariable('to')::DATE + 2)]]
),
tasks AS (SELECT *, {_SIZE} AS size FROM asked WHERE {{gpu_type}})
"""


TASKS = _tasks()
LONG_WAIT_SECONDS = 600
_QUANTILES = f"quantile_cont(wait_seconds, [{', '.join(str(percent / 100) for percent in PERCENTS)}])"
_NAMED = ", ".join(f"quantiles[{at}] AS p{percent}_wait_seconds" for at, percent in enumerate(PERCENTS, 1))
_COUNTS = """
count(*) FILTER (state != 'waiting') AS tasks, count(wait_seconds) AS waits,
count(*) FILTER (state = 'never_started') AS never_started, count(*) FILTER (state = 'waiting') AS waiting"""
SIZE_NAMES = f"[{', '.join(repr(size) for size in SIZES)}]"
_WAIT = (
    "A wait is from a task's launch (where the source knows none: its submission) to the start of its first instance. "
    "Tasks that ask for GPUs, by the day of their launch."
)
_COLUMNS = f"""
cluster_id, job_id, task_name, gpu_type, gpus, {SIZE_NAMES}[size] AS request_size, launched_at, wait_seconds,
run_seconds, state, status"""
_STATES = (
    "never started: ended without starting; waiting: still in the queue at the end of the data, on any day; "
    "unknown: it ran, but its start was not recorded."
)


def _distribution(name: str, title: str, seconds: str, about: str) -> Question:
    """How many of each GPU type take at most so long, at the edges of bins that are even in logarithms."""
    return Question(
        name=name,
        title=title,
        sql=f"""
{TASKS},
-- Many tasks take equally long: logarithms are computed once for each value.
measured AS (SELECT gpu_type, {seconds} AS seconds, count(*) AS tasks FROM tasks GROUP BY ALL),
binned AS (
    -- Rounded, so that a power of ten falls into the bin that it ends.
    SELECT gpu_type, tasks,
        CASE WHEN seconds <= 1 THEN 0 ELSE ceil(round({BINS_PER_DECADE} * log10(seconds), 9)) END AS bin
    FROM measured WHERE seconds >= 0
),
counted AS (SELECT gpu_type, bin, sum(tasks)::BIGINT AS tasks FROM binned GROUP BY ALL)
SELECT
    gpu_type, 10 ** (bin / {BINS_PER_DECADE}) AS at_most_seconds, tasks,
    (sum(tasks) OVER so_far / sum(tasks) OVER (PARTITION BY gpu_type))::DOUBLE AS tasks_so_far_ratio
FROM counted
WINDOW so_far AS (PARTITION BY gpu_type ORDER BY bin)
""",
        order="gpu_type, at_most_seconds",
        about=about,
    )


MOST_HOURS = 1_500  # a longer range is shown by the day
_DEMAND = """
sum(submitted_tasks)::BIGINT AS submitted_tasks, sum(requested_gpus) AS requested_gpus,
sum(waiting_gpu_hours) AS waiting_gpu_hours, sum(held_gpu_hours) AS held_gpu_hours,
sum(available_gpu_hours) AS available_gpu_hours"""
# Hours of the cluster's time zone.
_LOCAL_DEMAND = """
WITH demand AS (
    SELECT gold_demand_hourly.*, (gold_demand_hourly.started_at AT TIME ZONE silver_clusters.time_zone) AS local_at
    FROM gold_demand_hourly INNER JOIN silver_clusters ON gold_demand_hourly.cluster_id = silver_clusters.cluster_id
    WHERE {days} AND {cluster:gold_demand_hourly.cluster_id} AND {gpu_type}
)
"""
_DEMANDED = (
    "In GPU-hours. Held: by jobs, used or not. Waiting: requested by tasks between launch and start. Available: "
    "capacity that was not down. Hours of the cluster's time zone."
)

QUESTIONS = (
    Question(
        name="queue_facts",
        title="The queue in numbers",
        sql=f"""
{TASKS},
facts AS (SELECT {_QUANTILES} AS quantiles, max(wait_seconds) AS longest, {_COUNTS} FROM tasks),
tiles AS (
    SELECT 1 AS place, 'Median wait' AS label, quantiles[1] AS value, 'wait_seconds' AS unit,
        format('of {{:,}} tasks that began', waits) AS note, NULL AS level, '/rows/waits?state=started' AS link
    FROM facts
    UNION ALL SELECT 2, '95th percentile', quantiles[3], 'wait_seconds', 'one in twenty waits longer', NULL,
        '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 3, '99th percentile', quantiles[4], 'wait_seconds', 'one in a hundred waits longer', NULL,
        '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 4, 'Longest wait', longest, 'wait_seconds', NULL, NULL, '/rows/waits?state=started' FROM facts
    UNION ALL SELECT 5, 'Tasks launched', tasks, 'count', NULL, NULL, '/rows/waits' FROM facts
    UNION ALL SELECT 6, 'Never started', never_started, 'count',
        format('{{:.1f}} % of those launched', 100 * never_started / nullif(tasks, 0)),
        CASE WHEN never_started > 0 THEN 'bad' END, '/rows/waits?state=never_started' FROM facts
    UNION ALL SELECT 7, 'Waiting now', waiting, 'count', 'at the end of the data, on any day', NULL,
        '/rows/waits?state=waiting' FROM facts
)
SELECT * FROM tiles WHERE (SELECT tasks + waiting FROM facts) > 0
""",
        order="place",
        about=_WAIT,
    ),
    Question(
        name="waits_by_gpu_type",
        title="Waits by GPU type",
        sql=f"""
{TASKS}, grouped AS (SELECT gpu_type, {_QUANTILES} AS quantiles, {_COUNTS} FROM tasks GROUP BY gpu_type)
SELECT gpu_type, tasks, waits, {_NAMED}, never_started, waiting FROM grouped
""",
        order="gpu_type",
        about=_WAIT,
    ),
    Question(
        name="waits_by_size",
        title="Waits by request size",
        sql=f"""
{TASKS}, grouped AS (SELECT size, {_QUANTILES} AS quantiles, {_COUNTS} FROM tasks GROUP BY size)
SELECT size, {SIZE_NAMES}[size] AS requested_gpus, tasks, waits, {_NAMED}, never_started, waiting FROM grouped
""",
        order="size",
        about=f"{_WAIT} Size: GPUs asked for, all instances together.",
    ),
    _distribution("wait_distribution", "Distribution of waits", "wait_seconds", _WAIT),
    _distribution(
        "run_time_distribution",
        "Distribution of run times",
        "run_seconds",
        "From the start of a task's first instance to the task's end, where both are known. By the day of the launch.",
    ),
    Question(
        name="waits",
        title="Tasks and how long they waited",
        sql=f"""
{TASKS}
SELECT {_COLUMNS} FROM tasks
WHERE coalesce(state = getvariable('state')::VARCHAR, true) AND coalesce(size = getvariable('size')::BIGINT, true)
    AND coalesce(wait_seconds > getvariable('longer')::DOUBLE, getvariable('longer') IS NULL)
    AND coalesce(run_seconds > getvariable('ran_longer')::DOUBLE, getvariable('ran_longer') IS NULL)
""",
        order="wait_seconds DESC NULLS LAST, launched_at, job_id, task_name",
        options=(
            Option("state", _STATES, choices=STATES),
            Option("size", "class of request size, 1 (below 0.25 GPUs) to 7 (64 and more)", "integer"),
            Option("longer", "waits longer than this, in seconds", "number"),
            Option("ran_longer", "runs longer than this, in seconds", "number"),
        ),
        about=f"{_WAIT} The longest first. {_STATES[0].upper()}{_STATES[1:]}",
    ),
    Question(
        name="longest_waits",
        title="Longest waits",
        # Few tasks wait long: they are filtered first.
        sql=f"{_tasks(f'start_wait_seconds > {LONG_WAIT_SECONDS}')} SELECT {_COLUMNS} FROM tasks",
        order="wait_seconds DESC, launched_at, job_id, task_name",
        about=f"{_WAIT} Waits of more than {LONG_WAIT_SECONDS // 60} minutes, the longest first.",
    ),
    Question(
        name="demand_over_time",
        title="Demand against capacity",
        sql=f"""
{_LOCAL_DEMAND},
span AS (SELECT count(DISTINCT local_at) <= {MOST_HOURS} AS is_hourly FROM demand)
SELECT
    strftime(date_trunc(CASE WHEN is_hourly THEN 'hour' ELSE 'day' END, local_at), '%Y-%m-%d %H:%M') AS begin,
    {_DEMAND}
FROM demand CROSS JOIN span GROUP BY begin
""",
        order="begin",
        about=f"{_DEMANDED} By the hour up to {MOST_HOURS:,} hours, else by the day.",
    ),
    Question(
        name="demand_by_hour_of_week",
        title="Busiest hours of the week",
        sql=f"""
{_LOCAL_DEMAND},
hours AS (SELECT isodow(local_at) AS weekday, hour(local_at) AS hour, local_at, {_DEMAND} FROM demand GROUP BY ALL)
SELECT
    weekday, hour, count(*) AS hours, avg(submitted_tasks) AS submitted_tasks, avg(held_gpu_hours) AS held_gpu_hours,
    avg(waiting_gpu_hours) AS waiting_gpu_hours, avg(available_gpu_hours) AS available_gpu_hours,
    sum(held_gpu_hours + waiting_gpu_hours) / nullif(sum(available_gpu_hours), 0) AS demanded_ratio
FROM hours GROUP BY weekday, hour
""",
        order="weekday, hour",
        about=f"{_DEMANDED} Means over the weeks; demanded: held and waiting, of available. Weekday 1 is Monday.",
    ),
    Question(
        name="demand_hours",
        title="Demand by hour and GPU type",
        sql=f"""
{_LOCAL_DEMAND}
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
        about=_DEMANDED,
    ),
)
