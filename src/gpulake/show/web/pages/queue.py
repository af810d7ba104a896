"""Queue: how long tasks wait, for which GPUs, and when."""

from __future__ import annotations

from gpulake.show.web.figures import queue
from gpulake.show.web.pages import Page, Panel, plot

_NO_TASKS = "No task that requests GPUs was launched in these days. Widen them, or land a scheduler's records."

QUEUE = Page(
    name="queue",
    title="Queue",
    lead="How long tasks wait from their launch to the start of their first instance, for which GPUs, and when.",
    empty=_NO_TASKS,
    place=30,
    panels=(
        Panel("facts", "The queue in numbers", "queue_facts", "tiles", is_wide=True),
        plot(
            "demand",
            "Demand against capacity",
            "demand_over_time",
            queue.demand,
            "/rows/waits?from={day}&to={day}",
            is_wide=True,
        ),
        plot(
            "by_type",
            "Waits by GPU type",
            "waits_by_gpu_type",
            queue.waits_by_type,
            "/rows/waits?gpu_type={custom}",
            about="Percentiles: half of the tasks wait less than p50, one in a hundred longer than p99. Logarithmic.",
        ),
        plot(
            "by_size",
            "Waits by request size",
            "waits_by_size",
            queue.waits_by_size,
            "/rows/waits?size={custom}",
            about="The same by the GPUs that a task requests, over all its instances.",
        ),
        plot(
            "distribution",
            "Distribution of waits",
            "wait_distribution",
            queue.distribution,
            "/rows/waits?gpu_type={custom0}&longer={custom1}",
            about="The share of tasks that wait at most this long. A click shows those that waited longer.",
        ),
        plot(
            "run_times",
            "Distribution of run times",
            "run_time_distribution",
            queue.distribution,
            "/rows/waits?gpu_type={custom0}&ran_longer={custom1}",
            about="The share of tasks that run at most this long, from the start of their first instance to their end.",
            empty="No task of these days has both a start and an end.",
        ),
        plot(
            "week",
            "Busiest hours of the week",
            "demand_by_hour_of_week",
            queue.week,
            "/rows/demand_hours?weekday={custom0}&hour={custom1}",
            about="Held and waiting GPU-hours as a share of what was available, in the cluster's time zone.",
            is_wide=True,
        ),
        Panel(
            "longest",
            "Longest waits",
            "longest_waits",
            limit=12,
            is_wide=True,
            empty="No task waited for more than ten minutes in these days.",
        ),
    ),
)
PAGES = (QUEUE,)
