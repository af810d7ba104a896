"""What tests of all questions and pages share: a dashboard on several lakes, and values for what a question needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.guard import Guard
from gpulake.show.web.questions import Option, Question
from show.web.asking import asked_often

# One value of each kind of thing, by the name of the option that takes it.
SAMPLES = {
    "job": "SELECT job_id AS v FROM silver_jobs ORDER BY job_id = '80' DESC, job_id LIMIT 1",
    "user": "SELECT user_id AS v FROM silver_jobs ORDER BY user_id = 'ann' DESC, user_id LIMIT 1",
    "group": "SELECT group_id AS v FROM silver_jobs ORDER BY user_id = 'ann' DESC, group_id LIMIT 1",
    "machine": "SELECT machine_id AS v FROM silver_machines ORDER BY machine_id = 'gpu01' DESC, machine_id LIMIT 1",
    "node": "SELECT machine_id AS v FROM silver_machines ORDER BY machine_id = 'gpu01' DESC, machine_id LIMIT 1",
    "incident": "SELECT incident_id AS v FROM incidents ORDER BY job_id = '80' DESC NULLS LAST, incident_id LIMIT 1",
    "run": "SELECT run_id AS v FROM bronze_run_meta ORDER BY 1 LIMIT 1",
}


@dataclass(frozen=True)
class Dashboard:
    client: TestClient
    samples: Mapping[str, str]
    lake: Lake

    def needed(self, options: tuple[Option, ...]) -> dict[str, str]:
        return {option.name: self.value(option) for option in options if option.is_needed}

    def value(self, option: Option) -> str:
        if option.choices:
            return option.choices[0]
        words = {"integer": "1", "number": "1.5", "date": "2026-03-01"}
        return words.get(option.kind) or self.samples.get(option.name, "x")

    def ask(self, question: Question, **more: object) -> dict[str, Any]:
        params = {**self.needed(question.options), **more}
        response = self.client.get(f"/api/v1/{question.name}", params=params)  # type: ignore[arg-type]
        result: dict[str, Any] = json.loads(response.text)
        assert response.status_code == 200, (question.name, more, response.text)
        return result

    def routes(self) -> list[APIRoute]:
        app: Any = self.client.app
        return sorted(all_routes(app.routes), key=lambda route: route.path)


def all_routes(routes: Iterable[Any]) -> list[APIRoute]:
    """Those of routers that were included, too."""
    result = [route for route in routes if isinstance(route, APIRoute)]
    nested = [getattr(route, "original_router", None) for route in routes]
    return result + [one for router in nested if router for one in all_routes(router.routes)]


def dashboard(config: Config, guard: Guard | None = None) -> Dashboard:
    lake = Lake(config).open()
    samples = {}
    with lake.reading() as reader:
        built = reader.tables()
        for name, query in SAMPLES.items():
            if query.split(" FROM ")[1].split()[0] in built:
                samples.update({name: str(row["v"]) for row in reader.query(query).to_pylist()})  # noqa: B035 - one row
    client = TestClient(application(lake, guard), raise_server_exceptions=False, follow_redirects=False)
    return Dashboard(asked_often(client), samples, lake)
