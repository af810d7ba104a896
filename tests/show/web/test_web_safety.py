"""What an attacker would try, and whether a number leads to the rows that it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.requests import Request

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.lake.values import plain, values
from gpulake.show.spreadsheet import harmless_column
from gpulake.show.web import answers as asking
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.guard import Guard
from gpulake.show.web.questions import questions
from gpulake.show.web.render_cache import RenderCache
from gpulake.show.web.viewers import LOCAL
from show.web.asking import ask
from show.web.lakes import CLUSTER

TOKEN = "ann-has-this-token"


@pytest.fixture(scope="module")
def client(rich: Config) -> TestClient:
    app = application(Lake(replace(rich, serve=Serve(sql=True))))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(Config(lake=tmp_path_factory.mktemp("empty") / "lake", threads=1)).create()


@pytest.fixture(scope="module")
def guarded(empty: Lake) -> FastAPI:
    return application(empty, Guard(tokens={TOKEN: "ann"}))


# The guard


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://]", "//", "é"])
def test_an_origin_that_is_no_address_is_refused(guarded: FastAPI, origin: str) -> None:
    client = TestClient(guarded, raise_server_exceptions=False)
    answer = client.post("/login", data={"token": TOKEN}, headers={b"Origin": origin.encode()})
    assert answer.status_code == 403


@pytest.mark.parametrize(("proto", "address", "is_kept"), [("https", "127.0.0.1", True), ("http", "127.0.0.1", False),
                                                           ("https", "203.0.113.9", False)])  # fmt: skip
def test_the_cookie_of_a_login_stays_with_tls_that_a_proxy_speaks_for_us(
    guarded: FastAPI, proto: str, address: str, is_kept: bool
) -> None:
    client = TestClient(guarded, follow_redirects=False, client=(address, 1))
    answer = client.post("/login", data={"token": TOKEN}, headers={"X-Forwarded-Proto": proto})
    assert ("Secure" in answer.headers["set-cookie"]) is is_kept


def test_a_long_address_does_not_prevent_a_login(guarded: FastAPI) -> None:
    client = TestClient(guarded, headers={"Accept": "text/html"})
    assert client.get("/jobs", params={"search": "x" * 3_000}).status_code == 200  # the login page
    assert client.get("/login", params={"next": "/" + "x" * 3_000}).status_code == 200


# Values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("SELECT 'infinity'::TIMESTAMP IS NOT NULL, 'infinity'::DATE IS NOT NULL", [True, True]),
        ("SELECT DATE '10000-01-01'", ["10000-01-01"]),
        ("SELECT TIMESTAMP '12345-01-01 10:00:00'", ["12345-01-01 10:00:00.000000"]),
        ("SELECT 9007199254740993::HUGEINT", ["9007199254740993"]),
        ("SELECT sum(x) FROM range(4) t(x)", [6]),
        ("SELECT 1.5::DECIMAL(38, 10)", [1.5]),
        ("SELECT MAP {1: [NULL, 2]}, {'a': TIME '10:00:00'}", [[[1, [None, 2]]], {"a": "10:00:00"}]),
    ],
)
def test_odd_values_are_shown_as_they_are(client: TestClient, query: str, reported: list[Any]) -> None:
    answer = client.post("/api/v1/sql", json={"query": query})
    assert (answer.status_code, answer.json().get("rows")) == (200, [reported])


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        *("SELECT 'infinity'::TIMESTAMP", "SELECT '-infinity'::DATE", "SELECT 'infinity'::TIMESTAMPTZ"),
        *("SELECT TIMESTAMPTZ '290000-01-01'", "SELECT DATE '5000-01-01 (BC)'", "SELECT [DATE '10000-01-01']"),
        *("SELECT {'d': 'infinity'::TIMESTAMP}", "SELECT MAP {'a': DATE '10000-01-01'}", "SELECT '10101'::BIT"),
        *("SELECT TIMESTAMP_NS '2020-01-01 00:00:00.123456789'", "SELECT INTERVAL 99999999 YEAR"),
        *("SELECT '24:00:00'::TIME", "SELECT '23:59:59-15:59'::TIMETZ"),
        *("SELECT union_value(k := 1)", "SELECT 'x'::ENUM('x', 'y')", "SELECT 'nan'::DOUBLE, '-inf'::FLOAT"),
        *("SELECT 1 AS a, 2 AS a", "SELECT '\\xff'::BLOB", "SELECT chr(0)", "SELECT [NULL, [NULL]]", "SELECT NULL"),
    ],
)
def test_no_value_makes_the_server_fail(client: TestClient, query: str) -> None:
    assert client.post("/api/v1/sql", json={"query": query}).status_code in (200, 400)


def test_days_beyond_the_calendar_of_python_are_text() -> None:
    days = pa.chunked_array([pa.array([0, 10_000_000, None], pa.int32()).cast(pa.date32())])
    assert [plain(value) for value in values(days)] == ["1970-01-01", "29349-01-26", None]


def test_text_that_a_spreadsheet_would_run_is_text() -> None:
    shown = ["=1", " =1", "\n=1", "\t1", "＝1", "\u3000＠x", "\ufeff=x", "\u200b+1", "\x00-1", "-5", "\r\n@x"]
    calm = ["a=1", "", "x\n=1", "1-2", "'=1", "ann"]
    for column in (text := pa.array([*shown, *calm, None]), text.dictionary_encode(), text.cast(pa.large_string())):
        assert harmless_column(column).to_pylist() == [f"'{one}" for one in shown] + [*calm, None]


# Memory


def test_answers_without_rows_weigh_too(empty: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_CACHED_CELLS", 1_000)
    answers, question = Answers(empty), questions()["jobs"]
    for number in range(60):
        answers.ask(Asked(question, {"search": f"nobody {number}"}, LOCAL))
    assert 1 < len(answers._kept) <= 1_000 / asking.LEAST_WEIGHT


def test_what_was_asked_is_not_kept_beside_what_was_rendered() -> None:
    kept, long = RenderCache(), "x" * 100_000
    request = Request({"type": "http", "path": "/x", "headers": [], "server": ("h", 1), "scheme": "http"})
    kept.respond(request, (long,), LOCAL, "text/html", lambda: "short")
    assert [len(key) < 100 for key in kept._bodies] == [True]


# Numbers and the rows behind them


def days_of(rows: list[dict[str, Any]]) -> list[str]:
    return [row["day"] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"cluster": CLUSTER}, {"cluster": "synth"}, {"place": 3}, {"gpu_type": "H100"}])
def test_jobs_and_incidents_at_a_glance_are_the_rows_they_lead_to(client: TestClient, given: dict[str, Any]) -> None:
    if "place" in given:
        days = days_of(ask(client, "ledger_by_day"))
        given = {"from": days[3], "to": days[5]}
    tiles = {row["label"]: row for row in ask(client, "key_numbers", **given)}
    ended, failed = (tiles[name]["link"] for name in ("jobs ended", "failed"))
    assert tiles["jobs ended"]["value"] == total(client, ended) > 0
    assert tiles["failed"]["value"] == pytest.approx(total(client, failed) / total(client, ended))
    incidents = ask(client, "incidents", **given)
    assert tiles["unresolved incidents"]["value"] == sum(row["state"] != "resolved" for row in incidents)


def total(client: TestClient, link: str) -> int:
    path = link.replace("/rows/", "/api/v1/")
    assert client.get(link).status_code == 200
    return int(client.get(path).json()["total"])


def test_jobs_end_on_the_days_of_their_cluster(client: TestClient, rich: Config) -> None:
    """Counted here by the clock of the cluster itself, which is hours behind."""
    from collections import Counter
    from zoneinfo import ZoneInfo

    with Lake(rich).open().reading() as reader:
        jobs = reader.query("SELECT cluster_id, ended_at FROM silver_jobs WHERE ended_at IS NOT NULL").to_pylist()
        zones = {row["cluster_id"]: row["time_zone"] for row in reader.query("FROM silver_clusters").to_pylist()}
    ended = Counter(str(job["ended_at"].astimezone(ZoneInfo(zones[job["cluster_id"]])).date()) for job in jobs)
    assert len(ended) > 10
    for day, jobs_of_day in sorted(ended.items())[::7]:
        assert len(ask(client, "ended_jobs", **{"from": day, "to": day})) == jobs_of_day, day


def test_what_was_found_in_a_cluster_is_not_shown_under_another(client: TestClient) -> None:
    result = {name: ask(client, "found", cluster=name) for name in (CLUSTER, "synth")}
    for name, rows in result.items():
        assert {row["subject"] for row in rows if row["kind"] == "ledger"} == {name}
        assert {row["cluster_id"] for row in rows} <= {name, None}


def test_days_that_stand_out_are_those_of_the_cluster(client: TestClient) -> None:
    every = days_of(ask(client, "anomalous_days"))
    used = {row["dt"] for row in ask(client, "utilisation_by_day", cluster="synth")}
    assert every
    assert set(days_of(ask(client, "anomalous_days", cluster="synth"))) == set(every) & used
    assert ask(client, "anomalous_days", cluster="no such cluster") == []
