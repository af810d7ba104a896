"""Jobs: the search, and the page of one job."""

from __future__ import annotations

from gpulake.show.web.figures import jobs, series
from gpulake.show.web.pages import Page, Panel
from gpulake.show.web.questions.job import JOB
from gpulake.show.web.questions.jobs import OPTIONS

JOBS = Page(
    name="jobs",
    title="Jobs",
    place=50,
    lead="Which jobs ran, how they ended and what they lost. Search by the begin of an id, user, group or workload.",
    options=OPTIONS,
    panels=(
        Panel(name="summary", title="In numbers", question="jobs_summary", show="tiles", is_wide=True),
        Panel(
            name="results",
            title="Jobs, the newest first",
            question="jobs",
            limit=20,
            is_wide=True,
            empty="No job is like that. Take a filter away, or search for less.",
        ),
        Panel(
            name="status",
            title="How they ended, by day of submission",
            question="jobs_by_status",
            show="figure",
            draw=jobs.by_status,
            limit=1000,
            leads_to="/rows/jobs?from={x}&to={x}&status={name}",
        ),
        Panel(
            name="reasons",
            title="Why jobs died",
            question="failure_reasons",
            show="reasons.html",
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
            name="summary",
            title="In numbers",
            question="job_summary",
            show="tiles",
            is_wide=True,
            empty="The lake knows no such job. Search for it on the page of jobs.",
        ),
        Panel(
            name="diagnoses",
            title="Diagnosis",
            question="job_diagnoses",
            show="diagnoses.html",
            is_wide=True,
            limit=20,
            empty="None of its logs was diagnosed. Run gpulake diagnose LOG --job ID.",
        ),
        Panel(
            name="attempts",
            title="Attempts in time",
            question="job_attempts",
            show="figure",
            draw=jobs.attempts,
            limit=jobs.MOST_LANES,
            is_wide=True,
            leads_to="/machine?machine={custom}",
            empty="No attempt of it is known: it waits, or its source does not tell.",
        ),
        Panel(
            name="resources",
            title="Requested and used",
            question="job_resources",
            show="figure",
            draw=jobs.resources,
            empty="Its source does not tell what it asked for.",
        ),
        Panel(
            name="telemetry",
            title="Its GPUs in its time",
            question="job_telemetry",
            show="figure",
            draw=series.gpus,
            limit=1000,
            leads_to="/machine?machine={custom}",
            empty="No telemetry of its machines in its time. Collect with gpulake collect, then land the run.",
        ),
        Panel(
            name="incidents",
            title="Incidents",
            question="job_incidents",
            is_wide=True,
            empty="No incident names this job.",
        ),
        Panel(
            name="neighbours",
            title="Others on the same machines then",
            question="job_neighbours",
            limit=10,
            is_wide=True,
            empty="Nobody else was there, or the source does not tell machines.",
        ),
    ),
)
PAGES = (JOBS, JOB_PAGE)
