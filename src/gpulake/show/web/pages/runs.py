"""Collected runs, and the page of one run."""

from __future__ import annotations

from gpulake.show.web.figures import series
from gpulake.show.web.pages import Page, Panel
from gpulake.show.web.questions.runs import RUN, TRACE

MOST_SPANS = 200
AGAIN = "Nothing of this kind was recorded in this run."

RUNS = Page(
    name="runs",
    title="Runs",
    place=70,
    lead="What gpulake collect recorded on machines: their load, their links, their processes, GPUs and requests.",
    panels=(
        Panel(
            name="runs",
            title="Collected runs, the newest first",
            question="runs_collected",
            limit=100,
            is_wide=True,
            empty="No run has landed. Run gpulake collect start, gpulake collect parse, then gpulake refresh RUN_DIR.",
        ),
    ),
)

RUN_PAGE = Page(
    name="run",
    title="Run",
    is_listed=False,
    parent="runs",
    lead="What gpulake collect recorded on the machines of this run. Times are UTC.",
    options=(RUN, TRACE),
    panels=(
        Panel(
            name="nodes",
            title="Nodes",
            question="run_nodes",
            limit=100,
            is_wide=True,
            empty="The lake knows no such run. See all on the page of runs.",
        ),
        Panel(
            name="hosts",
            title="CPU and memory",
            question="run_hosts",
            show="figure",
            draw=series.hosts,
            limit=1000,
            leads_to="/machine?machine={custom}",
            empty=AGAIN,
        ),
        Panel(
            name="gpus",
            title="GPUs",
            question="run_gpus",
            show="figure",
            draw=series.gpus,
            limit=1000,
            leads_to="/machine?machine={custom}",
            empty=AGAIN,
        ),
        Panel(
            name="waterfall",
            title="A trace, span by span",
            question="run_spans",
            show="waterfall.html",
            limit=MOST_SPANS,
            is_wide=True,
            empty="No request, task or command of this run was traced, or none has this name.",
        ),
        Panel(name="traces", title="Traces", question="run_traces", show="list", limit=12, empty=AGAIN),
        Panel(name="events", title="Events of its nodes", question="run_events", show="list", limit=12, empty=AGAIN),
        Panel(
            name="links",
            title="Network",
            question="run_links",
            show="figure",
            draw=series.links,
            limit=1000,
            is_wide=True,
            leads_to="/machine?machine={custom}",
            empty=AGAIN,
        ),
        Panel(
            name="processes", title="Processes, by CPU", question="run_processes", limit=12, is_wide=True, empty=AGAIN
        ),
    ),
)
PAGES = (RUNS, RUN_PAGE)
