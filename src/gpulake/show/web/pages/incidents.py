"""Incidents, unusual days and notifications; and the page of one incident."""

from __future__ import annotations

from gpulake.show.web.figures import incidents as figures
from gpulake.show.web.pages import Page, Panel, plot
from gpulake.show.web.questions.options import INCIDENT, KIND, SEVERITY, STATE

_FROM_FINDINGS = "None for these filters. Builds open them from findings, and so does: gpulake diagnose LOG"

PAGES = (
    Page(
        name="incidents",
        empty=_FROM_FINDINGS,
        title="Incidents",
        lead="What is abnormal or broken, and who looks after it. Times and days are in UTC.",
        place=60,
        options=(STATE, SEVERITY, KIND),
        panels=(
            Panel("counts", "By state", "incident_counts", "tiles", is_wide=True),
            Panel("incidents", "What needs attention", "incidents", "incidents.html", is_wide=True, limit=25),
            plot("by_day", "By day", "incidents_by_day", figures.incidents_by_day, "/incidents?from={x}&to={x}"),
            Panel("by_reason", "By kind and reason", "incidents_by_reason", limit=10),
            plot(
                "days",
                "Days that stand out",
                "anomalous_days",
                figures.anomalous_days,
                "/jobs?from={x}&to={x}",
                is_wide=True,
                about=(
                    "GPU utilisation by day within the band that earlier days let one expect. A click leads to the "
                    "jobs of the day."
                ),
                empty="No day was scored. Land a trace with utilisation, then: gpulake build",
            ),
            Panel(
                "anomalous_days",
                "The most unusual days",
                "anomalous_days",
                is_wide=True,
                limit=10,
                empty="No day was scored. Land a trace with utilisation, then: gpulake build",
            ),
            Panel(
                "alerts",
                "Alerts",
                "alerts",
                limit=10,
                is_wide=True,
                empty="No notification was sent in these days. Add a sink to [alerts] in gpulake.toml.",
            ),
            Panel(
                "sinks",
                "Notifications by sink",
                "alerts_by_sink",
                empty="No alert was ever queued: [alerts] has no sink.",
            ),
            Panel(
                "windows",
                "Maintenance windows",
                "maintenance_windows",
                empty="None. They suppress notifications; see gpulake incidents windows add --help",
            ),
        ),
    ),
    Page(
        name="incident",
        title="Incident",
        options=(INCIDENT,),
        is_listed=False,
        parent="incidents",
        lead="What happened, why, what to do, and what was done so far. Times are UTC.",
        panels=(
            Panel(
                "facts",
                "What it is",
                "incident",
                "incident.html",
                is_wide=True,
                empty="There is no incident with this id, or you may not see it. See the list on the page Incidents.",
            ),
            Panel(
                "diagnosis",
                "Diagnosis",
                "incident_diagnoses",
                "diagnoses.html",
                is_wide=True,
                limit=3,
                empty="No log of it was diagnosed: gpulake diagnose LOG --job JOB",
            ),
            Panel(
                "sightings",
                "What was seen",
                "incident_sightings",
                is_wide=True,
                empty="No findings: a diagnosis opened it.",
            ),
            Panel("history", "History", "incident_history", "list", limit=200),
            Panel(
                "recoveries",
                "Recoveries",
                "incident_recoveries",
                empty="None. To see what would be done: gpulake recover --help",
            ),
            Panel("similar", "Similar cases", "incident_similar", is_wide=True, limit=10, empty="None."),
            Panel("alerts", "Notifications", "incident_alerts", is_wide=True, empty="None were sent."),
        ),
    ),
)
