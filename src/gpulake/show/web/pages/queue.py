"""Queue: how long work waits, for which GPUs, and at which hours."""

from __future__ import annotations

from gpulake.show.web.figures import queue
from gpulake.show.web.pages import Page, Panel

_NO_TASKS = "No task that asks for GPUs was launched in these days. Widen them, or land a scheduler's records."
_MOST_HOURS = 5_000

PAGE = Page(
    name="queue",
    title="Queue",
    lead="How long tasks wait from their launch to the begin of their first instance, for which GPUs, and when.",
    place=30,
    panels=(
        Panel(
            name="facts",
            title="The queue in numbers",
            question="queue_facts",
            show="tiles",
            is_wide=True,
            empty=_NO_TASKS,
        ),
        Panel(
            name="demand",
            title="Demand against capacity",
            question="demand_over_time",
            show="figure",
            draw=queue.demand,
            limit=_MOST_HOURS,
            is_wide=True,
            leads_to="/rows/waits?from={day}&to={day}",
            empty=_NO_TASKS,
        ),
        Panel(
            name="by_type",
            title="Waits by GPU type",
            about="Percentiles: half of the tasks wait less than p50, one in a hundred longer than p99. Logarithmic.",
            question="waits_by_gpu_type",
            show="figure",
            draw=queue.waits_by_type,
            limit=200,
            leads_to="/rows/waits?gpu_type={custom}",
            empty=_NO_TASKS,
        ),
        Panel(
            name="by_size",
            title="Waits by request size",
            about="The same by the GPUs that a task asks for, all instances together.",
            question="waits_by_size",
            show="figure",
            draw=queue.waits_by_size,
            leads_to="/rows/waits?size={custom}",
            empty=_NO_TASKS,
        ),
        Panel(
            name="distribution",
            title="Distribution of waits",
            about="The share of tasks that wait at most so long. A click shows those that waited longer.",
            question="wait_distribution",
            show="figure",
            draw=queue.distribution,
            limit=5_000,
            leads_to="/rows/waits?gpu_type={custom0}&longer={custom1}",
            empty=_NO_TASKS,
        ),
        Panel(
            name="run_times",
            title="Distribution of run times",
            about="The share of tasks that run at most so long, from their first instance's begin to their end.",
            question="run_time_distribution",
            show="figure",
            draw=queue.distribution,
            limit=5_000,
            leads_to="/rows/waits?gpu_type={custom0}&ran_longer={custom1}",
            empty="No task of these days has both a begin and an end.",
        ),
        Panel(
            name="week",
            title="Busiest hours of the week",
            about="Held and waiting GPU-hours as a share of what was available, by the cluster's own clock.",
            question="demand_by_hour_of_week",
            show="figure",
            draw=queue.week,
            limit=200,
            is_wide=True,
            leads_to="/rows/demand_hours?weekday={custom0}&hour={custom1}",
            empty=_NO_TASKS,
        ),
        Panel(
            name="longest",
            title="Longest waits",
            question="longest_waits",
            limit=12,
            is_wide=True,
            empty="Nobody waited for more than ten minutes in these days.",
        ),
    ),
)
