"""What tests of pages ask the dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.testclient import TestClient

from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake

Row = dict[str, Any]
FIGURE = re.compile(r'<script type="application/json" class="figure">(.*?)</script>', re.DOTALL)


def client_of(config: Config) -> TestClient:
    return TestClient(application(Lake(config)))


def rows_told(client: TestClient, question: str, **given: str | int) -> list[Row]:
    """All of an answer, however many pages of the API it has."""
    found: list[Row] = []
    while True:
        response = client.get(f"/api/v1/{question}", params={**given, "limit": "1000", "offset": str(len(found))})
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer["missing"] == []
        found += answer["rows"]
        if len(found) >= answer["total"]:
            return found


def figure_told(client: TestClient, page: str, panel: str, **given: str | int) -> dict[str, Any]:
    response = client.get(f"/panels/{page}/{panel}", params=given)
    assert response.status_code == 200, response.text
    (found,) = FIGURE.findall(response.text)
    figure: dict[str, Any] = json.loads(found)
    return figure
