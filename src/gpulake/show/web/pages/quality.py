"""Data quality: how fresh, complete and correct the lake is."""

from __future__ import annotations

from gpulake.show.web.figures import quality as figures
from gpulake.show.web.pages import Page, Panel, plot

QUALITY = Page(
    name="quality",
    title="Data quality",
    lead="How fresh, complete and correct the data are, and the steps of gpulake itself.",
    place=80,
    panels=(
        Panel("counts", "Can it be trusted?", "quality_counts", "tiles", is_wide=True),
        Panel(
            "clusters",
            "Freshness by cluster",
            "cluster_freshness",
            is_wide=True,
            empty="The build has no cluster yet. Land a trace, then: gpulake build",
        ),
        plot(
            "coverage",
            "Coverage by day",
            "coverage_by_day",
            figures.coverage,
            "/rows/coverage_by_day?from={x}&to={x}",
            empty="No day was observed within these filters.",
        ),
        plot(
            "steps_by_command",
            "How long commands took",
            "steps_by_command",
            figures.steps,
            "/rows/steps",
            empty="Nothing was run yet: gpulake refresh PATH...",
        ),
        Panel(
            "landed",
            "What landed",
            "landed_tables",
            is_wide=True,
            limit=30,
            empty="Nothing landed yet: gpulake land PATH...",
        ),
        Panel(
            "tests", "Tests of the last build", "test_results", limit=12, empty="No build was tested yet: gpulake build"
        ),
        Panel(
            "steps", "Steps of gpulake itself", "steps", limit=12, empty="Nothing was run yet: gpulake refresh PATH..."
        ),
        Panel(
            "quarantine",
            "Rows that did not parse",
            "quarantine_by_reason",
            is_wide=True,
            limit=12,
            empty="Every row parsed.",
        ),
        Panel("quarantined", "The last of them", "quarantined_rows", is_wide=True, limit=8, empty="Every row parsed."),
        Panel("build", "The build in use", "build", is_wide=True, empty="There is none yet: gpulake build"),
        Panel("tables", "When tables were built", "table_freshness", limit=12),
        Panel(
            "files",
            "Files as they landed",
            "landed_files",
            is_wide=True,
            limit=12,
            empty="Nothing landed yet: gpulake land PATH...",
        ),
    ),
)
PAGES = (QUALITY,)
