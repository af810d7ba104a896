"""What people change beside incidents: saved views, annotations, windows; who may, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.app import create_app
from gpulake.show.web.guard import Guard

NOW = datetime(2026, 3, 31, tzinfo=UTC)
ANN, BOB, CID, EVE = ("ann-has-this-token", "bob-has-that-token", "cid-has-some-token", "eve-has-other-token")
USERS = {"ann": ServeUser("operator"), "eve": ServeUser("operator", groups=("physics",))}
ADDED = {"text": "driver 570", "kind": "deployment", "starts_at": "2026-03-02T10:00:00+01:00"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    sinks = {"ops": SinkSettings(kind="webhook", url_variable="GPULAKE_NO_SUCH_URL")}
    config = Config(lake=tmp_path / "lake", threads=1, alerts=Alerts(sinks=sinks), serve=Serve(sql=True, users=USERS))
    guard = Guard(config.serve, {ANN: "ann", BOB: "bob", CID: "cid", EVE: "eve"})
    return TestClient(application(Lake(config).create(), guard, FrozenClock(NOW)))


def post(client: TestClient, path: str, body: Any = None, token: str = ANN, **headers: str) -> tuple[int, Any]:
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    response = client.post(f"/api/v1/{path}", content=json.dumps(body or {}), headers=sent)
    return response.status_code, response.json()


def rows(client: TestClient, question: str, token: str = ANN, **given: str) -> list[dict[str, Any]]:
    response = client.get(f"/api/v1/{question}", params=given, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["rows"]
    return found


def page(client: TestClient, path: str, token: str = ANN) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/html"}
    response = client.get(path, headers=headers)
    return response.status_code, response.text


def test_a_view_is_saved_for_everybody_and_removed_by_its_author_or_an_operator(client: TestClient) -> None:
    status, saved = post(client, "views", {"title": "Waste", "address": "/explore?range=7d&by=idle"}, BOB)
    assert status == 200
    expected = {"title": "Waste", "link": "/explore?range=7d&by=idle", "saved_by": "bob"}
    assert rows(client, "saved_views", CID) == [{**expected, "saved_at": NOW.isoformat(), "view_id": saved["id"]}]
    assert rows(client, "search", CID, text="wast") == []  # no job, no machine: the lake has no build
    assert post(client, f"views/{saved['id']}/remove", None, CID)[0] == 400
    assert post(client, f"views/{saved['id']}/remove", None, BOB) == (200, saved)
    assert rows(client, "saved_views", CID) == []
    assert post(client, f"views/{saved['id']}/remove")[0] == 400
    _, other = post(client, "views", {"title": "Mine", "address": "/now"}, BOB)
    assert post(client, f"views/{other['id']}/remove") == (200, other)


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/explore", "//evil.example/explore", "/\\evil.example", "explore", "/nowhere", "/login", ""],
)
def test_a_saved_view_leads_to_no_other_place(client: TestClient, address: str) -> None:
    assert post(client, "views", {"title": "x", "address": address})[0] == 422
    assert rows(client, "saved_views") == []


def test_who_sees_some_groups_alone_neither_saves_views_nor_sees_those_of_others(client: TestClient) -> None:
    post(client, "views", {"title": "of alice", "address": "/user?user=alice"})
    assert post(client, "views", {"title": "x", "address": "/now"}, EVE)[0] == 403
    assert rows(client, "saved_views", EVE) == []
    assert page(client, "/sql", EVE)[0] == 404


def test_an_annotation_is_on_the_charts_of_its_days_and_its_cluster(client: TestClient) -> None:
    _, added = post(client, "annotations", ADDED)
    post(client, "annotations", {"text": "now, of a cluster", "cluster_id": "tiger"})
    _, window = post(client, "windows", {"node": "gpu-*", "ends_at": "2026-04-01T00:00:00Z", "note": "fans"})
    post(client, "windows", {"weekdays": "sat", "hours": "22:00-23:00"})
    expected = {"text": "driver 570", "kind": "deployment", "starts_at": "2026-03-02T09:00:00+00:00"}
    of_all = [{**expected, "ends_at": None, "cluster_id": None}]
    assert rows(client, "marks", cluster="synth", to="2026-03-05") == of_all
    assert rows(client, "marks", **{"from": "2026-03-03", "to": "2026-03-05"}) == []
    assert [row["text"] for row in rows(client, "marks")] == [
        "driver 570",
        "maintenance of gpu-*: fans",
        "now, of a cluster",
    ]
    assert [row["text"] for row in rows(client, "marks", cluster="synth", **{"from": "2026-03-30"})] == [
        "maintenance of gpu-*: fans"
    ]
    assert post(client, f"annotations/{added['id']}/remove") == (200, added)
    assert post(client, f"windows/{window['id']}/remove") == (200, window)
    assert [row["text"] for row in rows(client, "marks")] == ["now, of a cluster"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("annotations", {**ADDED, "ends_at": "2026-03-02T08:00:00Z"}, 400),
        ("annotations", {**ADDED, "starts_at": "2026-03-02T08:00:00"}, 422),
        ("annotations", {**ADDED, "kind": "party"}, 422),
        ("annotations", {"text": ""}, 422),
        ("windows", {"node": "gpu01"}, 400),
        ("windows", {"weekdays": "funday"}, 400),
        ("windows/w-1/remove", {}, 400),
        ("sinks/nope/test", {}, 400),
        ("views", {"title": "x", "address": "/now", "more": 1}, 422),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(client: TestClient, path: str, body: Any, status: int) -> None:
    found, said = post(client, path, body)
    assert (found, bool(said["error"]), bool(said["hint"])) == (status, True, True)


@pytest.mark.parametrize(
    "path", ["annotations", "windows", "annotations/n-1/remove", "windows/w-1/remove", "sinks/ops/test"]
)
def test_operators_alone_change_what_concerns_all(client: TestClient, path: str) -> None:
    assert post(client, path, ADDED if path == "annotations" else {}, BOB)[0] == 403


def test_a_test_of_a_sink_says_why_it_fails(client: TestClient) -> None:
    status, said = post(client, "sinks/ops/test")
    assert (status, said["error"]) == (
        503,
        "sink ops: the environment variable GPULAKE_NO_SUCH_URL is not set",
    )


def test_a_form_of_another_site_changes_nothing(client: TestClient) -> None:
    body, kind = {"title": "x", "address": "/now"}, "application/x-www-form-urlencoded"
    assert post(client, "views", body, **{"Content-Type": kind})[0] == 415
    assert post(client, "views", body, Origin="https://evil.example")[0] == 403


def test_a_lake_that_cannot_be_written_to_is_only_shown(rich: Config) -> None:
    client = TestClient(create_app(Lake(rich).open()))
    response = client.post("/api/v1/views", json={"title": "x", "address": "/now"})
    assert (response.status_code, response.json()["error"]) == (403, "the lake is read-only here")


def test_the_admin_page_shows_roles_and_sinks_to_operators_and_no_secret(client: TestClient) -> None:
    status, text = page(client, "/admin")
    assert status == 200
    for words in ("ann", "eve", "rows of physics", "GPULAKE_NO_SUCH_URL not set", "/api/v1/sinks/ops/test"):
        assert words in text
    assert not [token for token in (ANN, BOB, CID, EVE) if token in text]
    assert page(client, "/admin", BOB)[0] == 403
    assert 'href="/admin"' not in page(client, "/now", BOB)[1]


def test_the_api_page_names_every_question_and_every_change(client: TestClient) -> None:
    status, text = page(client, "/docs", BOB)
    document = client.get("/api/v1/openapi.json", headers={"Authorization": f"Bearer {BOB}"}).json()
    paths = [path for path in document["paths"] if path.rpartition(".")[2] not in ("csv", "parquet", "json")]
    assert status == 200
    assert [path for path in paths if f"<code>{path}" not in text and path not in ("/api/v1", "/api/v1/events")] == []


def test_the_sql_page_has_the_tables_and_their_columns(rich: Config) -> None:
    lake = Lake(replace(rich, serve=Serve(sql=True))).open()
    text = TestClient(create_app(lake)).get("/sql", params={"query": "FROM silver_jobs -- </textarea>"}).text
    assert "<summary>gold_ledger_daily</summary>" in text
    assert '<button type="button" class="column" title="varchar">job_id</button>' in text
    assert "FROM silver_jobs -- &lt;/textarea&gt;" in text
    assert TestClient(create_app(Lake(rich).open())).get("/sql").status_code == 404
