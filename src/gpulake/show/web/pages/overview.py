"""Overview: where the GPU-hours went, findings, and which days are unusual."""

from __future__ import annotations

from gpulake.show.plots import utilisation
from gpulake.show.web.figures import ledger
from gpulake.show.web.pages import Page, Panel, plot

BUILD = "Run gpulake refresh PATH... to land a trace and build, or widen the filters."

OVERVIEW = Page(
    name="overview",
    title="Overview",
    place=10,
    lead="Where the GPU-hours went, what is abnormal, and what to do about it.",
    panels=(
        Panel("numbers", "At a glance", "key_numbers", "tiles", is_wide=True, empty=BUILD),
        plot(
            "ledger",
            "Where the GPU-hours went",
            "ledger",
            ledger.area,
            "/jobs?from={custom}&to={custom}",
            empty=f"No GPU-hours on these days. {BUILD}",
        ),
        Panel("found", "Findings", "found", "list", limit=6, empty="No findings on these days."),
        Panel(
            "open",
            "What needs attention",
            "incidents",
            "incidents.html",
            given={"state": "open"},
            limit=5,
            is_wide=True,
            about="Open incidents, not acknowledged yet, the most severe first, with what to do. Times are UTC.",
            empty="No incident is open on these days. Builds open them, and so does: gpulake diagnose LOG",
        ),
        plot(
            "utilisation",
            "Utilisation, and what was expected",
            "utilisation_by_day",
            lambda rows: utilisation(rows, rows),
            "/jobs?from={x}&to={x}",
            is_wide=True,
            about=(
                "Busy over observed GPU-hours. The band is what earlier days of that weekday let one expect; hollow "
                "days were poorly covered, and are not judged. Hover over a day to see why it is flagged, or not."
            ),
            empty=f"No utilisation is known of these days. {BUILD}",
        ),
    ),
)
PAGES = (OVERVIEW,)
