"""Machines over time, those that fail more than their peers, and their GPUs; and the page of one machine."""

from __future__ import annotations

from functools import partial

from gpulake.show.plots import buckets
from gpulake.show.web.figures import machine, machines, series
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions.options import MACHINE, METRIC

_NO_TELEMETRY = "Collect telemetry with: gpulake collect; or land what dcgm-exporter or nvidia-smi wrote."

MACHINES = Page(
    name="machines",
    title="Machines",
    lead="Every machine over time, those that fail more than their peers, and GPUs that are hot, idle or broken.",
    place=40,
    options=(METRIC,),
    panels=(
        Panel("facts", "The machines in numbers", "fleet_facts", "tiles", is_wide=True),
        plot(
            "heat",
            "Every machine over time",
            "machine_heat",
            machines.heat,
            "/machine?machine={custom0}&cluster={custom1}&from={day}&to={day}",
            about=(
                "Share of a machine's capacity in the time under observation, by the hour up to three days, else by "
                "the day; a click leads to it. Used is a lower bound, lost an upper bound. Nearly all shares are "
                "below the brightest colour."
            ),
            is_wide=True,
            empty="No machine has a ledger in these days. Land an inventory of machines, then: gpulake build",
        ),
        plot(
            "lemons",
            "Failures compared with peers",
            "lemon_machines",
            machines.lemons,
            "/machine?machine={custom0}&cluster={custom1}",
            about="Over all time: jobs that failed on a machine, against what its peers had in as many jobs.",
            empty="No job that is known to have run on a machine has ended.",
        ),
        plot(
            "energy",
            "Energy by day",
            "energy_by_day",
            machines.energy,
            "/rows/energy_by_day?from={x}&to={x}",
            empty="The watts of these GPUs are not known: name them under [gpu_types] in gpulake.toml.",
        ),
        Panel("ranking", "Lemons first", "lemon_machines", limit=10, is_wide=True),
        Panel("least_used", "Least used machines", "machine_ledgers", limit=10, is_wide=True),
        Panel("hot", "Hot GPUs", "hot_gpus", limit=10, empty=f"No GPU was above its threshold. {_NO_TELEMETRY}"),
        Panel("throttled", "Throttled GPUs", "throttled_gpus", limit=10, empty=f"None was. {_NO_TELEMETRY}"),
        Panel("idle", "GPUs held and idle", "idle_gpus", limit=10, empty=f"None was. {_NO_TELEMETRY}"),
        Panel("errors", "Errors of GPUs", "gpu_errors", limit=10, empty=f"There were none. {_NO_TELEMETRY}"),
    ),
)
MACHINE_PAGE = Page(
    name="machine",
    title="Machine",
    options=(MACHINE,),
    is_listed=False,
    parent="machines",
    lead="What it was used for, what ran on it, and its problems.",
    panels=(
        Panel(
            "facts",
            "The machine in numbers",
            "machine_facts",
            "tiles",
            is_wide=True,
            empty="This machine is in no inventory and no telemetry. See the page Machines.",
        ),
        Panel(
            "findings", "Findings about it", "machine_findings", "list", empty="The last build found nothing about it."
        ),
        Panel("incidents", "Its incidents", "machine_incidents", "list", empty="None."),
        plot(
            "ledger",
            "What became of its GPU-hours",
            "machine_ledger",
            partial(buckets, at="begin"),
            "/rows/machine_attempts?machine={machine}&from={day}&to={day}",
            is_wide=True,
            empty="It has no capacity in the ledger in these days.",
        ),
        plot(
            "timeline",
            "What ran on it",
            "machine_attempts",
            machine.timeline,
            "/job?job={custom0}&cluster={custom1}",
            limit=1_000,
            about="The last 1,000 attempts, each in the first free lane, in UTC. A click leads to the job.",
            is_wide=True,
            empty="No job is known to have held GPUs here in these days.",
        ),
        plot(
            "use",
            "GPUs and CPU in use",
            "machine_use",
            machine.use,
            is_wide=True,
            empty="The trace has no metrics of it in these days.",
        ),
        plot(
            "gpus",
            "Its GPUs",
            "machine_gpus",
            series.machine_gpus,
            is_wide=True,
            empty=f"There is no telemetry of it in these days. {_NO_TELEMETRY}",
        ),
        Panel("jobs", "Its jobs", "machine_jobs", limit=15, is_wide=True, empty="None is known to have run here."),
        Panel("outages", "When it was down", "machine_outages", empty="No outage is known."),
        Panel("gpu_errors", "Errors of its GPUs", "machine_gpu_errors", empty="None were seen."),
        Panel("events", "Messages of its kernel and drivers", "machine_events", is_wide=True, empty="None landed."),
    ),
)
PAGES = (MACHINES, MACHINE_PAGE)
