"""Overview: where the GPU-hours went, what was found, and which days were unlike others."""

from __future__ import annotations

from gpulake.show.web.figures import days, ledger
from gpulake.show.web.pages import Page, Panel

BUILD = "Run gpulake refresh PATH... to land a trace and build, or widen the filters."

PAGE = Page(
    name="overview",
    title="Overview",
    place=10,
    lead="Where the GPU-hours went, what is abnormal, and what to do about it.",
    panels=(
        Panel(name="numbers", title="At a glance", question="key_numbers", show="tiles", is_wide=True, empty=BUILD),
        Panel(
            name="ledger",
            title="Where the GPU-hours went",
            question="ledger",
            show="figure",
            draw=ledger.area,
            limit=1000,
            leads_to="/jobs?from={custom}&to={custom}",
            empty=f"No GPU-hours on these days. {BUILD}",
        ),
        Panel(
            name="found",
            title="What was found",
            question="found",
            show="list",
            limit=6,
            empty="Nothing was found on these days.",
        ),
        Panel(
            name="open",
            title="What needs somebody",
            question="incidents",
            show="incidents.html",
            given={"state": "open"},
            limit=5,
            is_wide=True,
            about="Open incidents that nobody looks after yet, the most severe first, with what to do. Times are UTC.",
            empty="No incident is open on these days. Builds open them, and so does: gpulake diagnose LOG",
        ),
        Panel(
            name="utilisation",
            title="Utilisation, and what was expected",
            question="utilisation_by_day",
            show="figure",
            draw=days.utilisation,
            limit=1000,
            is_wide=True,
            about=(
                "Busy over observed GPU-hours. The band is what earlier days of that weekday make one expect; hollow "
                "days were poorly covered, and are not judged. Hover over a day to see why it is flagged, or not."
            ),
            leads_to="/jobs?from={x}&to={x}",
            empty=f"No utilisation is known of these days. {BUILD}",
        ),
    ),
)
