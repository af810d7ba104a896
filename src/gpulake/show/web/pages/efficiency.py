"""Efficiency: what became of what was held, by whom; and the report cards of a user and of a group."""

from __future__ import annotations

from gpulake.show.web.figures import ledger
from gpulake.show.web.pages import Page, Panel
from gpulake.show.web.questions import Option

NOTHING = "Nothing was held under this name on these days, or of these GPUs. Check the name, or widen the filters."
JOBS = Panel(
    name="jobs",
    title="The most wasteful jobs",
    question="efficiency_of_jobs",
    is_wide=True,
    empty=NOTHING,
)
SPREAD = Panel(
    name="spread",
    title="How efficient jobs are",
    question="job_efficiencies",
    show="figure",
    draw=ledger.spread,
    about="GPU-hours held by jobs of each efficiency: used over what sensors saw of attempts that were not lost.",
    limit=100,
    leads_to="/rows/efficiency_of_jobs?by=held&bin={custom}",
    empty=NOTHING,
)
CAUSES = Panel(name="causes", title="Waste by cause", question="waste_by_cause", empty="Nothing was wasted.")
TYPES = Panel(name="types", title="By GPU type", question="efficiency_by_gpu_type", empty=NOTHING)
WORKLOADS = Panel(name="workloads", title="By workload", question="efficiency_by_workload", empty=NOTHING)

EFFICIENCY = Page(
    name="efficiency",
    title="Efficiency",
    lead="Who held GPUs, what became of the GPU-hours, and which jobs and habits waste most of them.",
    place=20,
    panels=(
        Panel(
            name="holders",
            title="Who holds most, and what became of it",
            question="efficiency_by_user",
            show="figure",
            draw=ledger.holders("user_id"),
            limit=ledger.MOST_HOLDERS,
            about="GPU-hours of the users who hold most. A click leads to their report card.",
            leads_to="/user?user={custom}",
            empty=NOTHING,
        ),
        Panel(
            name="groups",
            title="Which groups hold most",
            question="efficiency_by_group",
            show="figure",
            draw=ledger.holders("group_id"),
            limit=ledger.MOST_HOLDERS,
            about="GPU-hours of the groups that hold most. A click leads to their report card.",
            leads_to="/group?group={custom}",
            empty=NOTHING,
        ),
        Panel(name="users", title="By user", question="efficiency_by_user", is_wide=True, empty=NOTHING),
        SPREAD,
        CAUSES,
        JOBS,
        Panel(
            name="buckets",
            title="The whole ledger, within its bounds",
            question="ledger_buckets",
            is_wide=True,
            empty="No GPUs were held or offered yet.",
        ),
        Panel(name="by_group", title="By group", question="efficiency_by_group", is_wide=True, empty=NOTHING),
        TYPES,
        WORKLOADS,
        Panel(
            name="costs",
            title="What it cost",
            question="cost_by_user",
            is_wide=True,
            empty="No price is known: set price_per_hour below [gpu_types.NAME] in gpulake.toml, then: gpulake build.",
        ),
    ),
)


def _holder(name: str, about: str, *panels: Panel) -> Page:
    return Page(
        name=name,
        title=name.capitalize(),
        options=(Option(name, about, is_needed=True),),
        is_listed=False,
        parent="efficiency",
        lead=f"What this {name} held, what became of it, and what would save most.",
        panels=(
            Panel(name="card", title="Report card", question="report_card", show="tiles", is_wide=True, empty=NOTHING),
            Panel(
                name="days",
                title="What became of what was held",
                question="held_by_day",
                show="figure",
                draw=ledger.area,
                limit=1000,
                leads_to=f"/jobs?{name}={{{name}}}&from={{custom}}&to={{custom}}",
                empty=NOTHING,
            ),
            Panel(
                name="advice",
                title="What would save most",
                question="advice",
                show="advice.html",
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
        Panel(name="groups", title="Their groups", question="efficiency_by_group", is_wide=True, empty=NOTHING),
    ),
    _holder(
        "group",
        "which group's report card",
        TYPES,
        WORKLOADS,
        Panel(name="users", title="Its users", question="efficiency_by_user", is_wide=True, empty=NOTHING),
    ),
)
