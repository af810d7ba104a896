"""What tests of pages ask the dashboard."""

from __future__ import annotations

import atexit
import json
import re
from contextlib import ExitStack
from functools import cache
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from gpulake.core.config import Config
from gpulake.flow.serving import application
from gpulake.lake import Lake

Row = dict[str, Any]
FIGURE = re.compile(r'<script type="application/json" class="figure">(.*?)</script>', re.DOTALL)


@cache
def _portal() -> BlockingPortal:
    ends = ExitStack()
    atexit.register(ends.close)
    return ends.enter_context(start_blocking_portal())


def asked_often(client: TestClient) -> TestClient:
    """All such clients share an event loop and its threads: they would start their own for every request."""
    client.portal = _portal()
    return client


def client_of(config: Config) -> TestClient:
    return asked_often(TestClient(application(Lake(config))))


def ask(client: TestClient, question: str, **given: object) -> list[Row]:
    """All of an answer, however many pages of the API it has; or the page that is given."""
    rows: list[Row] = []
    while True:
        page = {"limit": 1000, "offset": len(rows), **given}
        response = client.get(f"/api/v1/{question}", params={name: str(value) for name, value in page.items()})
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer["missing"] == []
        rows += answer["rows"]
        if "limit" in given or len(rows) >= answer["total"]:
            return rows


def figure_of(client: TestClient, page: str, panel: str, **given: str | int) -> dict[str, Any]:
    response = client.get(f"/panels/{page}/{panel}", params=given)
    assert response.status_code == 200, response.text
    (result,) = FIGURE.findall(response.text)
    figure: dict[str, Any] = json.loads(result)
    return figure
