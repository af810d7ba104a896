"""Efficiency of what was held, by user and group; and the report cards of a user and of a group."""

from __future__ import annotations

from functools import partial

from gpulake.show.plots import holders
from gpulake.show.web.figures import ledger
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions import Option

MOST_HOLDERS = 15
NOTHING = "Nothing was held under this name on these days, or of these GPUs. Check the name, or widen the filters."
JOBS = Panel("jobs", "The most wasteful jobs", "efficiency_of_jobs", is_wide=True)
SPREAD = plot(
    "spread",
    "How efficient jobs are",
    "job_efficiencies",
    ledger.spread,
    "/rows/efficiency_of_jobs?by=held&bin={custom}",
    about="GPU-hours held by jobs of each efficiency: used over what sensors measured of attempts that were not lost.",
)
CAUSES = Panel("causes", "Waste by cause", "waste_by_cause", empty="Nothing was wasted.")
TYPES = Panel("types", "By GPU type", "efficiency_by_gpu_type")
WORKLOADS = Panel("workloads", "By workload", "efficiency_by_workload")

EFFICIENCY = Page(
    name="efficiency",
    title="Efficiency",
    lead="Who held GPUs, what became of the GPU-hours, and which jobs and habits waste most of them.",
    empty=NOTHING,
    place=20,
    panels=(
        plot(
            "holders",
            "Who holds most, and what became of it",
            "efficiency_by_user",
            partial(holders, name="user_id"),
            "/user?user={custom}",
            limit=MOST_HOLDERS,
            about="GPU-hours of the users who hold most. A click leads to their report card.",
        ),
        plot(
            "groups",
            "Which groups hold most",
            "efficiency_by_group",
            partial(holders, name="group_id"),
            "/group?group={custom}",
            limit=MOST_HOLDERS,
            about="GPU-hours of the groups that hold most. A click leads to their report card.",
        ),
        Panel("users", "By user", "efficiency_by_user", is_wide=True),
        SPREAD,
        CAUSES,
        JOBS,
        Panel(
            "buckets",
            "The whole ledger, within its bounds",
            "ledger_buckets",
            is_wide=True,
            empty="No GPUs were held or offered yet.",
        ),
        Panel("by_group", "By group", "efficiency_by_group", is_wide=True),
        TYPES,
        WORKLOADS,
        Panel(
            "costs",
            "What it cost",
            "cost_by_user",
            is_wide=True,
            empty="No price is known: set price_per_hour below [gpu_types.NAME] in gpulake.toml, then: gpulake build.",
        ),
    ),
)


def _holder(name: str, about: str, *panels: Panel) -> Page:
    return Page(
        name=name,
        title=name.capitalize(),
        empty=NOTHING,
        options=(Option(name, about, is_needed=True),),
        is_listed=False,
        parent="efficiency",
        lead=f"What this {name} held, what became of it, and what would save most.",
        panels=(
            Panel("card", "Report card", "report_card", "tiles", is_wide=True),
            plot(
                "days",
                "What became of what was held",
                "held_by_day",
                ledger.area,
                f"/jobs?{name}={{{name}}}&from={{custom}}&to={{custom}}",
            ),
            Panel(
                "advice",
                "What would save most",
                "advice",
                "advice.html",
                empty="No change would have saved a GPU-hour of what was held under this name on these days.",
            ),
            SPREAD,
            CAUSES,
            JOBS,
            *panels,
        ),
    )


PAGES = (
    EFFICIENCY,
    _holder(
        "user",
        "whose report card",
        TYPES,
        WORKLOADS,
        Panel("groups", "Their groups", "efficiency_by_group", is_wide=True),
    ),
    _holder(
        "group",
        "which group's report card",
        TYPES,
        WORKLOADS,
        Panel("users", "Its users", "efficiency_by_user", is_wide=True),
    ),
)
