"""Jobs: the search, and the page of one job."""

from __future__ import annotations

from gpulake.show.web.figures import jobs, series
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions.options import JOB, JOBS_GROUP, JOBS_STATUS, JOBS_USER, LEAST_GPUS, SEARCH

JOBS = Page(
    name="jobs",
    title="Jobs",
    place=50,
    lead="Which jobs ran, how they ended and what they lost. Search by the start of an id, user, group or workload.",
    options=(SEARCH, JOBS_STATUS, JOBS_USER, JOBS_GROUP, LEAST_GPUS),
    panels=(
        Panel("summary", "In numbers", "jobs_summary", "tiles", is_wide=True),
        Panel(
            "results",
            "Jobs, the newest first",
            "jobs",
            is_wide=True,
            empty="No job matches. Remove a filter, or search for less.",
        ),
        plot(
            "status",
            "How they ended, by day of submission",
            "jobs_by_status",
            jobs.by_status,
            "/rows/jobs?from={x}&to={x}&status={name}",
        ),
        Panel(
            "reasons",
            "Why jobs died",
            "failure_reasons",
            "reasons.html",
            limit=12,
            empty="No log was diagnosed for these filters. Run gpulake diagnose LOG --job ID.",
        ),
    ),
)

JOB_PAGE = Page(
    name="job",
    title="Job",
    is_listed=False,
    parent="jobs",
    lead="How it ended and why, where it ran, and what it used of what it requested.",
    options=(JOB,),
    panels=(
        Panel(
            "summary",
            "In numbers",
            "job_summary",
            "tiles",
            is_wide=True,
            empty="No such job in the lake. Search for it on the page Jobs.",
        ),
        Panel(
            "diagnoses",
            "Diagnosis",
            "job_diagnoses",
            "diagnoses.html",
            is_wide=True,
            empty="None of its logs were diagnosed. Run gpulake diagnose LOG --job ID.",
        ),
        plot(
            "attempts",
            "Attempts over time",
            "job_attempts",
            jobs.attempts,
            "/machine?machine={custom}",
            limit=150,
            is_wide=True,
            empty="No attempt is known: it is waiting, or its source has none.",
        ),
        plot(
            "resources",
            "Requested and used",
            "job_resources",
            jobs.resources,
            empty="Its source does not say what it requested.",
        ),
        plot(
            "telemetry",
            "Its GPUs over time",
            "job_telemetry",
            series.gpus,
            "/machine?machine={custom}",
            empty="No telemetry of its machines at that time. Collect with gpulake collect, then land the run.",
        ),
        Panel("incidents", "Incidents", "job_incidents", is_wide=True, empty="No incident names this job."),
        Panel(
            "neighbours",
            "Other jobs on the same machines",
            "job_neighbours",
            limit=10,
            is_wide=True,
            empty="None, or the source does not say on which machines jobs ran.",
        ),
    ),
)
PAGES = (JOBS, JOB_PAGE)
