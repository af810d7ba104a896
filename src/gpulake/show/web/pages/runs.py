"""Collected runs, and the page of one run."""

from __future__ import annotations

from gpulake.show.web.figures import series
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions.options import RUN, TRACE

MOST_SPANS = 200
AGAIN = "Nothing of this kind was recorded in this run."

RUNS = Page(
    name="runs",
    title="Runs",
    place=70,
    lead="What gpulake collect recorded on machines: their load, their links, their processes, GPUs and requests.",
    panels=(
        Panel(
            "runs",
            "Collected runs, the newest first",
            "runs_collected",
            limit=100,
            is_wide=True,
            empty="No run has landed. Run gpulake collect start, gpulake collect parse, then gpulake refresh RUN_DIR.",
        ),
    ),
)

RUN_PAGE = Page(
    name="run",
    empty=AGAIN,
    title="Run",
    is_listed=False,
    parent="runs",
    lead="What gpulake collect recorded on the machines of this run. Times are UTC.",
    options=(RUN, TRACE),
    panels=(
        Panel(
            "nodes", "Nodes", "run_nodes", limit=100, is_wide=True, empty="No such run in the lake. See the page Runs."
        ),
        plot("hosts", "CPU and memory", "run_hosts", series.hosts, "/machine?machine={custom}"),
        plot("gpus", "GPUs", "run_gpus", series.gpus, "/machine?machine={custom}"),
        Panel(
            "waterfall",
            "A trace, span by span",
            "run_spans",
            "waterfall.html",
            limit=MOST_SPANS,
            is_wide=True,
            empty="No request, task or command of this run was traced, or none has this name.",
        ),
        Panel("traces", "Traces", "run_traces", "list", limit=12),
        Panel("events", "Events of its nodes", "run_events", "list", limit=12),
        plot("links", "Network", "run_links", series.links, "/machine?machine={custom}", is_wide=True),
        Panel("processes", "Processes, by CPU", "run_processes", limit=12, is_wide=True),
    ),
)
PAGES = (RUNS, RUN_PAGE)
