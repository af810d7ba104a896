"""Jobs: the search, and the page of one job."""

from __future__ import annotations

from gpulake.show.web.figures import jobs, series
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions.job import JOB
from gpulake.show.web.questions.jobs import OPTIONS

JOBS = Page(
    name="jobs",
    title="Jobs",
    place=50,
    lead="Which jobs ran, how they ended and what they lost. Search by the begin of an id, user, group or workload.",
    options=OPTIONS,
    panels=(
        Panel("summary", "In numbers", "jobs_summary", "tiles", is_wide=True),
        Panel(
            "results",
            "Jobs, the newest first",
            "jobs",
            is_wide=True,
            empty="No job is like that. Take a filter away, or search for less.",
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
    lead="How it went, why it died if it did, where it ran, and what it used of what it asked for.",
    options=(JOB,),
    panels=(
        Panel(
            "summary",
            "In numbers",
            "job_summary",
            "tiles",
            is_wide=True,
            empty="The lake knows no such job. Search for it on the page of jobs.",
        ),
        Panel(
            "diagnoses",
            "Diagnosis",
            "job_diagnoses",
            "diagnoses.html",
            is_wide=True,
            empty="None of its logs was diagnosed. Run gpulake diagnose LOG --job ID.",
        ),
        plot(
            "attempts",
            "Attempts in time",
            "job_attempts",
            jobs.attempts,
            "/machine?machine={custom}",
            limit=jobs.MOST_LANES,
            is_wide=True,
            empty="No attempt of it is known: it waits, or its source does not tell.",
        ),
        plot(
            "resources",
            "Requested and used",
            "job_resources",
            jobs.resources,
            empty="Its source does not tell what it asked for.",
        ),
        plot(
            "telemetry",
            "Its GPUs in its time",
            "job_telemetry",
            series.gpus,
            "/machine?machine={custom}",
            empty="No telemetry of its machines in its time. Collect with gpulake collect, then land the run.",
        ),
        Panel("incidents", "Incidents", "job_incidents", is_wide=True, empty="No incident names this job."),
        Panel(
            "neighbours",
            "Others on the same machines then",
            "job_neighbours",
            limit=10,
            is_wide=True,
            empty="Nobody else was there, or the source does not tell machines.",
        ),
    ),
)
PAGES = (JOBS, JOB_PAGE)
