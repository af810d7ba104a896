"""The dashboards of the demos: no panel is empty, but for what only people, their logs and their prices can fill."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.flow.demo import demo_site, demo_trace
from gpulake.lake import Lake
from gpulake.show.web.pages import Page, pages
from gpulake.synth.site import Site
from show.web.asking import client_of

# A job that was measured on a node with telemetry; the machines that incidents are about.
ASKED = """
SELECT j.job_id AS job, j.user_id AS user, j.group_id AS group, n.node_id AS machine, m.run_id AS run
FROM silver_instances i JOIN silver_jobs j USING (job_key) JOIN silver_nodes n USING (machine_key)
JOIN silver_instance_usage USING (worker_key) CROSS JOIN bronze_run_meta m
WHERE i.started_at > '1970-03-05 00:00:00+00' AND i.ended_at < '1970-03-05 12:00:00+00' AND j.group_id != j.user_id
ORDER BY i.run_seconds DESC, 1 LIMIT 1
"""
INCIDENTS = "SELECT incident_id AS incident, node AS machine FROM incidents WHERE node IS NOT NULL ORDER BY 1"
ONLY_PEOPLE_FILL = {
    "efficiency/costs": "a price, in the settings",
    "incident/alerts": "a sink",
    "incident/diagnosis": "a log that was diagnosed",
    "incident/recoveries": "a recovery",
    "incident/similar": "an incident of the past that was like it",
    "incidents/alerts": "a sink",
    "incidents/sinks": "a sink",
    "incidents/windows": "a time without alerts",
    "job/diagnoses": "a log that was diagnosed",
    "job/goodput": "steps of its training",
    "job/incidents": "a log that was diagnosed",
    "job/training": "steps of its training",
    "job/waits": "a queue that was listed while it waited",
    "jobs/reasons": "a log that was diagnosed",
    "incident/price": "gpulake whatif price",
    "views/saved": "a view that somebody saved",
    "views/annotations": "a note of a person",
    **{f"whatif/{panel.name}": "gpulake whatif" for panel in pages()["whatif"].panels},
    "machine/outages": "an outage, kept by hand or inferred",
    "explore/causes": "a log that was diagnosed",
    "explore/open": "an incident that is not over: these are of 1970",
    "quality/quarantine": "a row that does not parse",
    "quality/quarantined": "a row that does not parse",
}


# Jobs of the site with a diagnosis and with samples.
DIAGNOSED = """
SELECT DISTINCT j.job_id AS job, j.user_id AS user, j.account_id AS account, j.group_id AS group, n.node_id AS machine,
    'none' AS run
FROM diagnoses d JOIN silver_jobs j ON d.job_id = j.job_id JOIN silver_instances i USING (job_key)
JOIN silver_nodes n USING (machine_key) JOIN silver_instance_usage u USING (worker_key)
WHERE u.used_gpus IS NOT NULL AND j.group_id != j.user_id
ORDER BY 1 LIMIT 3
"""
# Of a site: what a collected run and the machine metrics of a PAI trace fill.
NOT_OF_A_SITE = {
    *("incidents/anomalous_days", "incidents/days", "machine/use"),
    *(f"run/{panel.name}" for panel in pages()["run"].panels),
    "runs/runs",
    "explore/workloads",
    "now/pending",  # its queue may be empty at the end
}
# Of a PAI trace: what only Slurm says.
NOT_OF_A_TRACE = {
    *(f"account/{panel.name}" for panel in pages()["account"].panels),
    *(
        "efficiency/accounts",
        "efficiency/partitions",
        "efficiency/qos",
        "explore/accounts",
        "queue/accounts",
        "queue/reasons",
    ),
}


@pytest.fixture(scope="module", params=["site", "pai"])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("demo")
    config = Config(lake=folder / "lake", threads=1)
    if request.param == "pai":
        demo_trace(Flow(config), folder / "trace", folder / "report.html", 20_000, 0)
    else:
        site = Site(datetime(2026, 3, 2, 9, tzinfo=UTC), nodes=10, interval_seconds=1800, snapshot_hours=24)
        demo_site(Flow(config), folder / "site", folder / "report.html", site)
    return config


@pytest.mark.slow
def test_no_panel_of_the_demo_is_empty_that_generated_data_can_fill(demo: Config) -> None:
    with Lake(demo).reading() as reader:
        is_site = not reader.query("FROM bronze_run_meta").num_rows
        jobs = reader.query(DIAGNOSED if is_site else ASKED).to_pylist()
        others = reader.query(INCIDENTS).to_pylist()
    client = client_of(demo)

    def is_empty(page: Page, question: str, fixed: dict[str, str], given: dict[str, str]) -> bool:
        selected = {option.name for option in page.options}
        values = {**fixed, **{name: value for name, value in given.items() if name in selected}, "limit": "1"}
        response = client.get(f"/api/v1/{question}", params=values)
        assert response.status_code == 200, (question, response.text)
        return not response.json()["rows"]

    every = [*({**others[0], **job} for job in jobs), *({**jobs[0], **other} for other in others)]
    empty = {
        f"{page.name}/{panel.name}"
        for page in pages().values()
        for panel in page.panels
        if all(is_empty(page, panel.question, dict(panel.given), given) for given in (*every, *_as_opened(page)))
    }
    assert empty <= {*ONLY_PEOPLE_FILL, *(NOT_OF_A_SITE if is_site else NOT_OF_A_TRACE)}


def _as_opened(page: Page) -> list[dict[str, str]]:
    """Without any filter, where a page needs none."""
    return [] if any(option.is_needed for option in page.options) else [{}]
