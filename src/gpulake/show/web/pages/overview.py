"""Overview: where the GPU-hours went."""

from __future__ import annotations

from gpulake.show import plots
from gpulake.show.web.pages import Page, Panel

PAGE = Page(
    name="overview",
    title="Overview",
    place=10,
    panels=(
        Panel(
            name="ledger",
            title="Where the GPU-hours went",
            question="ledger_by_day",
            show="figure",
            draw=plots.buckets,
            limit=1000,
            is_wide=True,
            leads_to="/rows/ledger_by_day?from={x}&to={x}",
        ),
    ),
)
