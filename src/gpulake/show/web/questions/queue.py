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
)
